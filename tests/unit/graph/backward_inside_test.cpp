#include "graph/passes/backward_inside.h"

#include "graph/verify.h"
#include "tests/unit/graph/test_support.h"

namespace framejit::graph {
namespace {

bool is_pointwise(const Graph&, const Node& node) { return op_info(node.op).has(kOpPointwise); }

std::string recomputed(std::string_view text, uint32_t backward) {
  std::optional<ChangedGraph> made = recompute_in_backward(parsed(text), NodeId(backward), is_pointwise, 0);
  if (!made) return "";
  EXPECT_EQ(verify(made->graph), std::nullopt);
  return to_text(made->graph);
}

// tanh(sin(x @ w)) @ w, summed; its gradient is added to one that is there, and a step is made with the sum.
constexpr std::string_view kForward =
    "graph @step (%0: tensor<64x64xf32, cpu>, %1: tensor<64x64xf32, cpu>, %2: tensor<64x64xf32, cpu>) {\n"
    "  %3 = aten.mm(%0, %1) : tensor<64x64xf32, cpu>\n"
    "  %4 = aten.sin(%3) : tensor<64x64xf32, cpu>\n"
    "  %5 = aten.tanh(%4) : tensor<64x64xf32, cpu>\n"
    "  %6 = aten.mm(%5, %1) : tensor<64x64xf32, cpu>\n";

const std::string kHead =
    "graph @recomputed (%0: tensor<64x64xf32, cpu>, %1: tensor<64x64xf32, cpu>, %2: tensor<64x64xf32, cpu>) {\n"
    "  %3 = aten.mm(%0, %1) : tensor<64x64xf32, cpu>\n"
    "  %4 = aten.sin(%3) : tensor<64x64xf32, cpu>\n"
    "  %5 = aten.tanh(%4) : tensor<64x64xf32, cpu>\n"
    "  %6 = aten.mm(%5, %1) : tensor<64x64xf32, cpu>\n";

TEST(BackwardInsideTest, WhatIsCheapIsComputedInFrontOfItsReader) {
  EXPECT_EQ(recomputed(std::string(kForward) + "  %7 = aten.mm(%6, %1) : tensor<64x64xf32, cpu>\n"
                                               "  %8 = aten.tanh_backward(%7, %5) : tensor<64x64xf32, cpu>\n"
                                               "  %9 = aten.cos(%3) : tensor<64x64xf32, cpu>\n"
                                               "  %10 = aten.mul.Tensor(%8, %9) : tensor<64x64xf32, cpu>\n"
                                               "  %11 = aten.add_.Tensor(%2, %10, 1) : tensor<64x64xf32, cpu> same %2\n"
                                               "  %12 = aten.sub_.Tensor(%1, %11, 1) : tensor<64x64xf32, cpu> same %1\n"
                                               "  return %6, %11, %12\n"
                                               "}\n",
                       4),
            kHead +
                "  %7 = aten.mm(%6, %1) : tensor<64x64xf32, cpu>\n"
                "  %8 = aten.sin(%3) : tensor<64x64xf32, cpu>\n"
                "  %9 = aten.tanh(%8) : tensor<64x64xf32, cpu>\n"
                "  %10 = aten.tanh_backward(%7, %9) : tensor<64x64xf32, cpu>\n"
                "  %11 = aten.cos(%3) : tensor<64x64xf32, cpu>\n"
                "  %12 = aten.mul.Tensor(%10, %11) : tensor<64x64xf32, cpu>\n"
                "  %13 = aten.add_.Tensor(%2, %12, 1) : tensor<64x64xf32, cpu> same %2\n"
                "  %14 = aten.sub_.Tensor(%1, %13, 1) : tensor<64x64xf32, cpu> same %1\n"
                "  return %6, %13, %14\n"
                "}\n");
}

TEST(BackwardInsideTest, ABackwardThatWasTakenBackIsNone) {
  EXPECT_EQ(recomputed(std::string(kForward) + "  return %6\n}\n", 4), "");
  EXPECT_EQ(recomputed(std::string(kForward) + "  return %6\n}\n", 9), "");
}

TEST(BackwardInsideTest, WhatTheProgramSeesIsKept) {
  EXPECT_EQ(recomputed(std::string(kForward) + "  %7 = aten.tanh_backward(%6, %5) : tensor<64x64xf32, cpu>\n"
                                               "  %8 = aten.mul.Tensor(%7, %3) : tensor<64x64xf32, cpu>\n"
                                               "  return %5, %8\n"
                                               "}\n",
                       4),
            "");
}

// The parameter is another one behind its step: what reads it there is no part of the backward, nor what comes after.
TEST(BackwardInsideTest, NothingIsComputedAgainBehindAWriteToWhatItReads) {
  EXPECT_EQ(recomputed(std::string(kForward) + "  %7 = aten.sub_.Tensor(%1, %2, 1) : tensor<64x64xf32, cpu> same %1\n"
                                               "  %8 = aten.tanh_backward(%6, %5) : tensor<64x64xf32, cpu>\n"
                                               "  return %7, %8\n"
                                               "}\n",
                       4),
            "");
}

TEST(BackwardInsideTest, RandomNumbersAreDrawnInTheirOrder) {
  EXPECT_EQ(recomputed(std::string(kForward) +
                           "  %7 = aten.rand_like(%6, none, none, none, none, none) : tensor<64x64xf32, cpu>\n"
                           "  %8 = aten.tanh_backward(%7, %5) : tensor<64x64xf32, cpu>\n"
                           "  return %8\n"
                           "}\n",
                       4),
            "");
}

}  // namespace
}  // namespace framejit::graph
