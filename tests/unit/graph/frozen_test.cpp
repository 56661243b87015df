#include "graph/passes/frozen.h"

#include "graph/passes/pack.h"
#include "graph/verify.h"
#include "tests/unit/graph/test_support.h"

namespace framejit::graph {
namespace {

TEST(FrozenTest, WhatDependsOnFrozenInputsAloneIsComputedOnce) {
  const Graph graph = parsed(
      "graph @g (%0: tensor<4x4xf32, cpu>, %1: tensor<4x4xf32, cpu>) {\n"
      "  %2 = aten.t(%1) : tensor<4x4xf32, cpu, strides=[1, 4]> view %1\n"
      "  %3 = aten.tanh(%2) : tensor<4x4xf32, cpu, strides=[1, 4]>\n"
      "  %4 = aten.mm(%0, %3) : tensor<4x4xf32, cpu>\n"
      "  return %4\n"
      "}\n");
  const FrozenSplit split = split_frozen(graph, {false, true});
  EXPECT_EQ(split.inputs, (std::vector<uint32_t>{1}));
  EXPECT_EQ(to_text(split.once),
            "graph @once (%0: tensor<4x4xf32, cpu>) {\n"
            "  %1 = aten.t(%0) : tensor<4x4xf32, cpu, strides=[1, 4]> view %0\n"
            "  %2 = aten.tanh(%1) : tensor<4x4xf32, cpu, strides=[1, 4]>\n"
            "  return %2\n"
            "}\n");
  EXPECT_EQ(to_text(split.rest),
            "graph @rest (%0: tensor<4x4xf32, cpu>, %1: tensor<4x4xf32, cpu>, %2: tensor<4x4xf32, cpu, strides=[1, "
            "4]>) {\n"
            "  %3 = aten.mm(%0, %2) : tensor<4x4xf32, cpu>\n"
            "  return %3\n"
            "}\n");
}

TEST(FrozenTest, WhatIsWrittenOrReturnedIsNotFrozen) {
  const Graph graph = parsed(
      "graph @g (%0: tensor<4xf32, cpu>, %1: tensor<4xf32, cpu>, %2: tensor<4xf32, cpu>) {\n"
      "  %3 = aten.add_.Tensor(%0, %1, 1) : tensor<4xf32, cpu> same %0\n"
      "  %4 = aten.tanh(%0) : tensor<4xf32, cpu>\n"
      "  %5 = aten.sin(%1) : tensor<4xf32, cpu>\n"
      "  %6 = aten.cos(%2) : tensor<4xf32, cpu>\n"
      "  %7 = aten.add.Tensor(%4, %6, 1) : tensor<4xf32, cpu>\n"
      "  return %5, %7\n"
      "}\n");
  const std::vector<bool> frozen = frozen_values(graph, {true, true, true});
  EXPECT_EQ(frozen, (std::vector<bool>{false, true, true, false, false, false, true, false}));
}

PackedOps onednn() {
  return {intern_op("mkldnn::_reorder_convolution_weight",
                    "mkldnn::_reorder_convolution_weight(Tensor self, int[2] "
                    "padding=0, int[2] stride=1, int[2] dilation=1, int "
                    "groups=1, int[]? input_size=None) -> Tensor Y"),
          intern_op("mkldnn::_convolution_pointwise",
                    "mkldnn::_convolution_pointwise(Tensor X, Tensor W, Tensor? B, int[] padding, int[] stride, int[] "
                    "dilation, int groups, str attr, Scalar?[] scalars, str? algorithm) -> Tensor Y"),
          intern_op("mkldnn::_reorder_linear_weight",
                    "mkldnn::_reorder_linear_weight(Tensor self, int? batch_size=None) -> Tensor Y"),
          intern_op("mkldnn::_linear_pointwise",
                    "mkldnn::_linear_pointwise(Tensor X, Tensor W, Tensor? B, str attr, "
                    "Scalar?[] scalars, str? algorithm) -> Tensor Y")};
}

std::vector<std::string> operators_of(const Graph& graph) {
  std::vector<std::string> names;
  for (size_t n = 0; n < graph.node_count(); ++n)
    names.emplace_back(op_name(graph.node(NodeId(static_cast<uint32_t>(n))).op));
  return names;
}

constexpr std::string_view kNormed =
    "graph @g (%0: tensor<2x3x8x8xf32, cpu>, %1: tensor<4x3x1x1xf32, cpu>, %2: tensor<4xf32, cpu>, %3: tensor<4xf32, "
    "cpu>) {\n"
    "  %4 = aten.convolution(%0, %1, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : tensor<2x4x8x8xf32, cpu>\n"
    "  %5, %6, %7 = aten.native_batch_norm(%4, none, none, %2, %3, false, 0.1, 1e-05) : tensor<2x4x8x8xf32, cpu>, "
    "tensor<0xf32, cpu>, tensor<0xf32, cpu>\n"
    "  %8 = aten.hardswish_(%5) : tensor<2x4x8x8xf32, cpu> same %5\n"
    "  %9 = aten.relu(%8) : tensor<2x4x8x8xf32, cpu>\n"
    "  %10 = aten.neg(%9) : tensor<2x4x8x8xf32, cpu>\n"
    "  return %10\n"
    "}\n";

TEST(PackTest, NormAndActivationBecomePartOfTheConvolution) {
  const Graph graph = parsed(kNormed);
  std::optional<ChangedGraph> packed = pack_weights(graph, {false, true, true, true}, onednn(), {});
  ASSERT_TRUE(packed);
  const FrozenSplit split = split_frozen(packed->graph, {false, true, true, true});
  EXPECT_EQ(operators_of(split.rest),
            (std::vector<std::string>{"mkldnn::_convolution_pointwise", "aten::relu", "aten::clone", "aten::neg"}));
  EXPECT_EQ(split.once.outputs().size(), 2u);  // the weight, the bias
  // The output is laid out as before, what comes in front of it is channels last.
  const Graph& rest = split.rest;
  EXPECT_TRUE(rest.meta(rest.node(NodeId(1)).result()).is_channels_last());
  EXPECT_TRUE(rest.meta(rest.outputs()[0]).is_contiguous());
}

TEST(PackTest, WeightsThatAreNotFrozenStay) {
  EXPECT_FALSE(pack_weights(parsed(kNormed), {false, false, true, true}, onednn(), {}));
  EXPECT_FALSE(pack_weights(parsed(kNormed), {false, true, true, true}, {}, {}));
}

TEST(PackTest, NormOfStatisticsThatMayChangeStays) {
  std::optional<ChangedGraph> packed = pack_weights(parsed(kNormed), {false, true, true, false}, onednn(), {});
  ASSERT_TRUE(packed);
  EXPECT_EQ(operators_of(packed->graph)[2], "aten::native_batch_norm");
}

}  // namespace
}  // namespace framejit::graph
