#include "graph/passes/rematerialize.h"

#include "graph/passes/min_cut.h"
#include "graph/recompute.h"
#include "graph/verify.h"
#include "tests/unit/graph/test_support.h"

namespace framejit::graph {
namespace {

TEST(MinCutTest, TakesTheNarrowestPlaceNearestToTheSink) {
  FlowNetwork network;
  uint32_t places[5];
  for (uint32_t& place : places) place = network.add_place();
  network.connect(places[0], places[1], 7);
  network.connect(places[1], places[2], 3);
  network.connect(places[2], places[3], 3);
  network.connect(places[3], places[4], FlowNetwork::kUnlimited);
  EXPECT_EQ(network.sink_side(places[0], places[4]), (std::vector<bool>{false, false, false, true, true}));
}

TEST(MinCutTest, SendsFlowBackWhereAShortWayWasTheWrongOne) {
  FlowNetwork network;  // 0 -> 1 -> 3 and 0 -> 2 -> 3 carry two only if the first way is not 0 -> 1 -> 2 -> 3
  for (int i = 0; i < 6; ++i) network.add_place();
  network.connect(0, 1, 1);
  network.connect(0, 2, 1);
  network.connect(1, 2, 1);
  network.connect(1, 4, 1);
  network.connect(4, 3, 1);
  network.connect(2, 3, 1);
  network.connect(3, 5, 2);
  const std::vector<bool> below = network.sink_side(0, 5);
  EXPECT_EQ(below, (std::vector<bool>{false, false, false, false, false, true}));
}

bool is_pointwise(const Graph&, const Node& node) { return op_info(node.op).has(kOpPointwise); }

ValueId numbered(uint32_t id) { return ValueId(id); }

std::vector<uint32_t> numbers(const std::vector<ValueId>& values) {
  std::vector<uint32_t> result;
  result.reserve(values.size());
  for (ValueId id : values) result.push_back(id.value);
  return result;
}

// A product of what an elementwise operator made of another: the backward reads %4 (of tanh), and %5.
constexpr std::string_view kForward =
    "graph @forward (%0: tensor<64x64xf32, cpu>, %1: tensor<64x64xf32, cpu>, %2: tensor<64xf32, cpu>) {\n"
    "  %3 = aten.mm(%0, %1) : tensor<64x64xf32, cpu>\n"
    "  %4 = aten.add.Tensor(%3, %2, 1) : tensor<64x64xf32, cpu>\n"
    "  %5 = aten.tanh(%4) : tensor<64x64xf32, cpu>\n"
    "  %6 = aten.mm(%5, %1) : tensor<64x64xf32, cpu>\n"
    "  return %6\n"
    "}\n";

TEST(RematerializeTest, KeepsTheProductAndACopyOfASmallInput) {
  Graph forward = parsed(kForward);
  const ValueId needed[] = {numbered(4), numbered(5), numbered(1)}, seen[] = {numbered(6)};
  EXPECT_EQ(numbers(Rematerialization(forward, is_pointwise).values_to_keep(needed, seen, 0)),
            (std::vector<uint32_t>{1, 4}));
  const ValueId last[] = {numbered(5)};
  EXPECT_EQ(numbers(Rematerialization(forward, is_pointwise).values_to_keep(last, seen, 0)),
            (std::vector<uint32_t>{5}));
}

TEST(RematerializeTest, KeepsWhatTheProgramSeesAndWhatIsSmall) {
  Graph forward = parsed(kForward);
  const ValueId needed[] = {numbered(4), numbered(5)}, seen[] = {numbered(5)}, others[] = {numbered(6)};
  EXPECT_EQ(numbers(Rematerialization(forward, is_pointwise).values_to_keep(needed, seen, 0)),
            (std::vector<uint32_t>{4, 5}));
  EXPECT_EQ(numbers(Rematerialization(forward, is_pointwise).values_to_keep(needed, others, 64 * 64 * 4)),
            (std::vector<uint32_t>{4, 5}));
}

// %2 is kept for both of what is computed from it, but not where it is transposed afterwards, in place.
TEST(RematerializeTest, KeepsWhatWasWrittenUnlessItsSizesWere) {
  const std::string written =
      "graph @forward (%0: tensor<64x64xf32, cpu>, %1: tensor<64x32xf32, cpu>) {\n"
      "  %2 = aten.mm(%0, %1) : tensor<64x32xf32, cpu>\n"
      "  %3 = aten.tanh_(%2) : tensor<64x32xf32, cpu> same %2\n"
      "  %4 = aten.exp(%3) : tensor<64x32xf32, cpu>\n"
      "  %5 = aten.sin(%3) : tensor<64x32xf32, cpu>\n";
  const std::string transposed = "  %6 = aten.t_(%2) : tensor<32x64xf32, cpu, strides=[1, 32]> same %2\n";
  const ValueId needed[] = {numbered(4), numbered(5)}, seen[] = {numbered(0)};
  Graph plain = parsed(written + "  return %0\n}\n"), reshaped = parsed(written + transposed + "  return %0\n}\n");
  EXPECT_EQ(numbers(Rematerialization(plain, is_pointwise).values_to_keep(needed, seen, 0)),
            (std::vector<uint32_t>{2}));
  EXPECT_EQ(numbers(Rematerialization(reshaped, is_pointwise).values_to_keep(needed, seen, 0)),
            (std::vector<uint32_t>{4, 5}));
}

bool is_never_cheap(const Graph&, const Node&) { return false; }

constexpr std::string_view kTwoCheckpoints =
    "graph @forward (%0: tensor<64x64xf32, cpu>, %1: tensor<64x64xf32, cpu>) {\n"
    "  %2 = aten.mm(%0, %1) : tensor<64x64xf32, cpu> recompute 1\n"
    "  %3 = aten.tanh(%2) : tensor<64x64xf32, cpu> recompute 1\n"
    "  %4 = aten.mm(%3, %1) : tensor<64x64xf32, cpu> recompute 1\n"
    "  %5 = aten.mm(%4, %1) : tensor<64x64xf32, cpu> recompute 2\n"
    "  %6 = aten.exp(%5) : tensor<64x64xf32, cpu> recompute 2\n"
    "  %7 = aten.mm(%6, %1) : tensor<64x64xf32, cpu>\n"
    "  return %7\n"
    "}\n";

// Not {0, 1, 6}: %5 could be computed from the inputs only through the first call.
TEST(RematerializeTest, KeepsOfCheckpointsWhatTheyGiveToEachOther) {
  Graph forward = parsed(kTwoCheckpoints);
  EXPECT_TRUE(forward.has_recompute());
  EXPECT_EQ(to_text(forward), kTwoCheckpoints);
  const ValueId needed[] = {numbered(3), numbered(5), numbered(6), numbered(0), numbered(1)}, seen[] = {numbered(7)};
  EXPECT_EQ(numbers(Rematerialization(forward, is_never_cheap).values_to_keep(needed, seen, 0)),
            (std::vector<uint32_t>{0, 1, 5, 6}));
}

TEST(RecomputeTest, RefusesWhatMayNotHappenTwice) {
  const auto why_not = [](std::string_view node, bool same_random = true) {
    Graph graph = parsed("graph @g (%0: tensor<4xf32, cpu>) {\n  %1 = aten.sin(%0) : tensor<4xf32, cpu>\n" +
                         std::string(node) + "\n  return %2\n}\n");
    return why_not_recompute(graph, NodeId(1), same_random).value_or("");
  };
  EXPECT_EQ(why_not("  %2 = aten.cos(%1) : tensor<4xf32, cpu>"), "");
  EXPECT_EQ(why_not("  %2 = aten.add_.Tensor(%1, %0, 1) : tensor<4xf32, cpu> same %1"),
            "aten::add_.Tensor writes a tensor from outside");
  EXPECT_EQ(why_not("  %3 = aten.cos(%1) : tensor<4xf32, cpu>\n"
                    "  %2 = aten.add_.Tensor(%3, %0, 1) : tensor<4xf32, cpu> same %3"),
            "");
  const std::string_view random = "  %2 = aten.rand_like(%1, none, none, none, none, none) : tensor<4xf32, cpu>";
  EXPECT_EQ(why_not(random), "");
  EXPECT_EQ(why_not(random, false), "aten::rand_like draws other random numbers the second time");
}

TEST(RematerializeTest, KeepsWhatIsMadeOfSomethingWrittenLater) {
  Graph forward = parsed(
      "graph @forward (%0: tensor<64x64xf32, cpu>) {\n"
      "  %1 = aten.mm(%0, %0) : tensor<64x64xf32, cpu>\n"
      "  %2 = aten.tanh(%1) : tensor<64x64xf32, cpu>\n"
      "  %3 = aten.add_.Tensor(%1, %0, 1) : tensor<64x64xf32, cpu>\n"
      "  return %3\n"
      "}\n");
  const ValueId needed[] = {numbered(1), numbered(2)};
  EXPECT_EQ(numbers(Rematerialization(forward, is_pointwise).values_to_keep(needed, {}, 0)),
            (std::vector<uint32_t>{1, 2}));
}

// hardswish_ keeps what it has read, a convolution what it has made.
constexpr std::string_view kWritten =
    "graph @forward (%0: tensor<64x64xf32, cpu>) {\n"
    "  %1 = aten.mm(%0, %0) : tensor<64x64xf32, cpu>\n"
    "  %2 = aten.sin(%1) : tensor<64x64xf32, cpu>\n"
    "  %3 = aten.clone(%2, none) : tensor<64x64xf32, cpu>\n"
    "  %4 = aten.hardswish_(%2) : tensor<64x64xf32, cpu> same %2\n"
    "  %5 = aten.mm(%2, %2) : tensor<64x64xf32, cpu>\n"
    "  return %5\n"
    "}\n";

TEST(RematerializeTest, ComputesWhatWasWrittenInPlace) {
  const Graph forward = parsed(kWritten);
  const Graph backward = parsed(
      "graph @backward (%0: tensor<64x64xf32, cpu>, %1: tensor<64x64xf32, cpu>, %2: tensor<64x64xf32, cpu>) {\n"
      "  %3 = aten.mm(%2, %0) : tensor<64x64xf32, cpu>\n"
      "  %4 = aten.hardswish_backward(%3, %1) : tensor<64x64xf32, cpu>\n"
      "  return %4\n"
      "}\n");
  const ValueId needed[] = {numbered(2), numbered(3)}, seen[] = {numbered(5)}, values[] = {numbered(4)};
  const Rematerialization again(forward, is_pointwise);
  const std::vector<ValueId> kept = again.values_to_keep(needed, seen, 0);
  EXPECT_EQ(numbers(kept), (std::vector<uint32_t>{3}));
  EXPECT_EQ(to_text(again.over(backward, needed, kept, values)->graph),
            "graph @backward (%0: tensor<64x64xf32, cpu>, %1: tensor<64x64xf32, cpu>) {\n"
            "  %2 = aten.hardswish(%0) : tensor<64x64xf32, cpu>\n"
            "  %3 = aten.mm(%1, %2) : tensor<64x64xf32, cpu>\n"
            "  %4 = aten.hardswish_backward(%3, %0) : tensor<64x64xf32, cpu>\n"
            "  return %4\n"
            "}\n");
  const ValueId both[] = {numbered(1), numbered(2), numbered(3)};
  EXPECT_EQ(numbers(again.values_to_keep(both, seen, 0)), (std::vector<uint32_t>{1}));
}

// Three stages, each with the sum of a product and of the stage before, all of which the backward reads.
TEST(RematerializeTest, ComputesNothingThatWouldBeHeldForALaterStage) {
  const Graph forward = parsed(
      "graph @forward (%0: tensor<64x64xf32, cpu>) {\n"
      "  %1 = aten.mm(%0, %0) : tensor<64x64xf32, cpu>\n"
      "  %2 = aten.relu(%1) : tensor<64x64xf32, cpu>\n"
      "  %3 = aten.mm(%2, %0) : tensor<64x64xf32, cpu>\n"
      "  %4 = aten.add.Tensor(%3, %2, 1) : tensor<64x64xf32, cpu>\n"
      "  %5 = aten.mm(%4, %0) : tensor<64x64xf32, cpu>\n"
      "  %6 = aten.add.Tensor(%5, %4, 1) : tensor<64x64xf32, cpu>\n"
      "  %7 = aten.mm(%6, %0) : tensor<64x64xf32, cpu>\n"
      "  return %7\n"
      "}\n");
  const ValueId needed[] = {numbered(1), numbered(2), numbered(3), numbered(4), numbered(5), numbered(6)};
  const ValueId seen[] = {numbered(7)};
  EXPECT_EQ(numbers(Rematerialization(forward, is_pointwise).values_to_keep(needed, seen, 0)),
            (std::vector<uint32_t>{1, 3, 4, 5}));
}

TEST(RematerializeTest, ComputesInFrontOfTheFirstReader) {
  Graph forward = parsed(kForward);
  Graph backward = parsed(
      "graph @backward (%0: tensor<64x64xf32, cpu>, %1: tensor<64x64xf32, cpu>, %2: tensor<64x64xf32, cpu>) {\n"
      "  %3 = aten.mm(%2, %2) : tensor<64x64xf32, cpu>\n"
      "  %4 = aten.mm(%1, %3) : tensor<64x64xf32, cpu>\n"
      "  %5 = aten.mul.Tensor(%4, %0) : tensor<64x64xf32, cpu>\n"
      "  return %5\n"
      "}\n");
  const ValueId needed[] = {numbered(4), numbered(5)}, kept[] = {numbered(4)};
  const ValueId values[] = {numbered(5), ValueId()};
  auto made = Rematerialization(forward, is_pointwise).over(backward, needed, kept, values);
  ASSERT_TRUE(made);
  EXPECT_EQ(to_text(made->graph),
            "graph @backward (%0: tensor<64x64xf32, cpu>, %1: tensor<64x64xf32, cpu>) {\n"
            "  %2 = aten.mm(%1, %1) : tensor<64x64xf32, cpu>\n"
            "  %3 = aten.tanh(%0) : tensor<64x64xf32, cpu>\n"
            "  %4 = aten.mm(%3, %2) : tensor<64x64xf32, cpu>\n"
            "  %5 = aten.mul.Tensor(%4, %0) : tensor<64x64xf32, cpu>\n"
            "  return %5\n"
            "}\n");
  EXPECT_EQ(made->values[0], numbered(5));
  EXPECT_FALSE(made->values[1].valid());
  const ValueId too_little[] = {numbered(0)};
  EXPECT_FALSE(Rematerialization(forward, is_pointwise).over(backward, needed, too_little, values));
}

}  // namespace
}  // namespace framejit::graph
