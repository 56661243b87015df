#include "graph/passes/drawn_masks.h"

#include "graph/passes/rematerialize.h"
#include "graph/verify.h"
#include "tests/unit/graph/test_support.h"

namespace framejit::graph {
namespace {

const std::string kHead =
    "graph @dropout (%0: tensor<64x64xf32, cpu>) {\n"
    "  %1 = aten.empty_like(%0, none, none, none, none, none) : tensor<64x64xf32, cpu>\n";
const std::string kDrawn = "  %2 = aten.bernoulli_.float(%1, 0.9, none) : tensor<64x64xf32, cpu> same %1\n";
const std::string kDivided = "  %3 = aten.div_.Scalar(%1, 0.9) : tensor<64x64xf32, cpu> same %1\n";
const std::string kReader = "  %4 = aten.mul.Tensor(%0, %1) : tensor<64x64xf32, cpu>\n";

std::vector<DrawnMask> masks(const Graph& graph, std::vector<ValueId> seen = {}, int64_t small = 0) {
  return drawn_masks(graph, seen, small);
}

size_t count(const std::string& text) { return masks(parsed(text + "  return %0\n}\n")).size(); }

TEST(DrawnMasksTest, AreDrawnAsBooleansAndMultiplied) {
  Graph graph = parsed(kHead + kDrawn + kDivided + kReader +
                       "  %5 = aten.add.Tensor(%4, %3, 1) : tensor<64x64xf32, cpu>\n"
                       "  return %5\n"
                       "}\n");
  draw_as_booleans(graph, masks(graph));
  EXPECT_EQ(verify(graph), std::nullopt);
  EXPECT_EQ(to_text(graph),
            "graph @dropout (%0: tensor<64x64xf32, cpu>) {\n"
            "  %1 = aten.empty_like(%0, bool, none, none, none, none) : tensor<64x64xbool, cpu>\n"
            "  %2 = aten.bernoulli_.float(%1, 0.9, none) : tensor<64x64xbool, cpu> same %1\n"
            "  %3 = aten.mul.Scalar(%1, 1.1111111640930176) : tensor<64x64xf32, cpu>\n"
            "  %4 = aten.mul.Tensor(%0, %3) : tensor<64x64xf32, cpu>\n"
            "  %5 = aten.add.Tensor(%4, %3, 1) : tensor<64x64xf32, cpu>\n"
            "  return %5\n"
            "}\n");
}

TEST(DrawnMasksTest, AreThoseThatAreOnlyReadAfterwards) {
  const std::string three = kHead + kDrawn + kDivided;
  EXPECT_EQ(count(three + kReader), 1u);
  EXPECT_EQ(count(kHead + kDrawn + kReader), 0u);
  EXPECT_EQ(count(three + "  %4 = aten.mul_.Tensor(%1, %0) : tensor<64x64xf32, cpu> same %1\n"), 0u);
  EXPECT_EQ(count(three + "  %4 = aten.t(%1) : tensor<64x64xf32, cpu, strides=[1, 64]> view %1\n"), 0u);
  EXPECT_EQ(count(kHead + kDrawn + "  %3 = aten.add.Tensor(%0, %2, 1) : tensor<64x64xf32, cpu>\n" +
                  "  %4 = aten.div_.Scalar(%1, 0.9) : tensor<64x64xf32, cpu> same %1\n"),
            0u);
}

TEST(DrawnMasksTest, AreOfF32AndDividedByAPositiveNumber) {
  for (const char* number : {"0.0", "-0.9", "1e-300", "nan"}) {
    std::string divided = kHead + kDrawn;
    divided.append("  %3 = aten.div_.Scalar(%1, ").append(number).append(") : tensor<64x64xf32, cpu> same %1\n");
    EXPECT_EQ(count(divided + kReader), 0u) << number;
  }
  EXPECT_EQ(count("graph @dropout (%0: tensor<64x64xf64, cpu>) {\n"
                  "  %1 = aten.empty_like(%0, none, none, none, none, none) : tensor<64x64xf64, cpu>\n"
                  "  %2 = aten.bernoulli_.float(%1, 0.9, none) : tensor<64x64xf64, cpu> same %1\n"
                  "  %3 = aten.div_.Scalar(%1, 0.9) : tensor<64x64xf64, cpu> same %1\n"),
            0u);
}

TEST(DrawnMasksTest, AreLargeAndNotSeen) {
  const Graph graph = parsed(kHead + kDrawn + kDivided + kReader + "  return %4\n}\n");
  EXPECT_EQ(masks(graph, {ValueId(4)}).size(), 1u);
  EXPECT_EQ(masks(graph, {ValueId(3)}).size(), 0u);
  EXPECT_EQ(masks(graph, {}, 64 * 64 * 4 - 1).size(), 1u);
  EXPECT_EQ(masks(graph, {}, 64 * 64 * 4).size(), 0u);
}

// What is drawn is kept, though it was written in place: the rest is computed again.
TEST(DrawnMasksTest, ABackwardKeepsTheBooleans) {
  Graph graph = parsed(kHead + kDrawn + kDivided + kReader + "  return %4\n}\n");
  draw_as_booleans(graph, masks(graph));
  const auto is_pointwise = [](const Graph&, const Node& node) { return op_info(node.op).has(kOpPointwise); };
  const ValueId needed[] = {ValueId(1)}, seen[] = {ValueId(4)};
  const Rematerialization again(graph, is_pointwise);
  EXPECT_EQ(again.values_to_keep(needed, seen, 0), (std::vector<ValueId>{ValueId(5)}));
}

}  // namespace
}  // namespace framejit::graph
