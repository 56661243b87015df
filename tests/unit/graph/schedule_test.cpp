#include "graph/passes/schedule.h"

#include "tests/unit/graph/test_support.h"

namespace framejit::graph {
namespace {

bool is_pointwise(const Graph&, const Node& node) { return op_info(node.op).has(kOpPointwise); }

std::vector<uint32_t> scheduled(std::string_view text, std::vector<ValueId> stays) {
  std::vector<uint32_t> order;
  const Graph graph = parsed(text);
  for (NodeId id : schedule(graph, stays, is_pointwise)) order.push_back(id.value);
  return order;
}

// The gradients of a layer's input and of its weight; %0 is the input, %1 the weight, %2 the gradient that arrives.
constexpr std::string_view kLayer =
    "graph @backward (%0: tensor<64x64xf32, cpu>, %1: tensor<64x64xf32, cpu>, %2: tensor<64x64xf32, cpu>) {\n"
    "  %3 = aten.t(%1) : tensor<64x64xf32, cpu, strides=[1, 64]> view %1\n"
    "  %4 = aten.mm(%2, %3) : tensor<64x64xf32, cpu>\n"
    "  %5 = aten.t(%0) : tensor<64x64xf32, cpu, strides=[1, 64]> view %0\n"
    "  %6 = aten.mm(%5, %2) : tensor<64x64xf32, cpu>\n"
    "  return %4, %6\n"
    "}\n";

TEST(ScheduleTest, TakesFirstWhatFreesAnInput) {
  EXPECT_EQ(scheduled(kLayer, {ValueId(1), ValueId(2), ValueId(4), ValueId(6)}), (std::vector<uint32_t>{0, 2, 3, 1}));
}

TEST(ScheduleTest, LeavesAnOrderThatHoldsNoMore) {
  EXPECT_EQ(scheduled(kLayer, {ValueId(0), ValueId(1), ValueId(2), ValueId(4), ValueId(6)}),
            (std::vector<uint32_t>{0, 1, 2, 3}));
}

// A product that frees nothing, and a node that frees %1.
std::vector<uint32_t> scheduled_behind_a_product(std::string_view second) {
  const std::string text =
      "graph @g (%0: tensor<64x64xf32, cpu>, %1: tensor<64x64xf32, cpu>) {\n"
      "  %2 = aten.mm(%0, %0) : tensor<64x64xf32, cpu>\n"
      "  %3 = " +
      std::string(second) +
      " : tensor<64x64xf32, cpu>\n"
      "  return %2, %3\n"
      "}\n";
  return scheduled(text, {ValueId(0), ValueId(2), ValueId(3)});
}

TEST(ScheduleTest, LeavesWhatHangsOnEachOtherAndWhatKernelsAreMadeOf) {
  EXPECT_EQ(scheduled_behind_a_product("aten.mm(%1, %1)"), (std::vector<uint32_t>{1, 0}));
  EXPECT_EQ(scheduled_behind_a_product("aten.mm(%1, %2)"), (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(scheduled_behind_a_product("aten.sin(%1)"), (std::vector<uint32_t>{0, 1}));
}

}  // namespace
}  // namespace framejit::graph
