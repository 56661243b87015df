#include "graph/passes/channels_last.h"

#include "graph/verify.h"
#include "tests/unit/graph/test_support.h"

namespace framejit::graph {
namespace {

std::string relaid(std::string_view text) {
  std::optional<ChangedGraph> graph = lay_out_channels_last(parsed(text), {});
  if (!graph) return "";
  EXPECT_EQ(verify(graph->graph), std::nullopt);
  return to_text(graph->graph);
}

TEST(ChannelsLastTest, ImagesAreCopiedOnce) {
  EXPECT_EQ(relaid("graph @g (%0: tensor<2x3x8x8xf32, cpu>, %1: tensor<64x3x1x1xf32, cpu>) {\n"
                   "  %2 = aten.convolution(%0, %1, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : "
                   "tensor<2x64x8x8xf32, cpu>\n"
                   "  %3 = aten.convolution(%0, %1, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : "
                   "tensor<2x64x8x8xf32, cpu>\n"
                   "  %4 = aten.mul.Tensor(%2, %3) : tensor<2x64x8x8xf32, cpu>\n"
                   "  %5 = aten.mean.dim(%4, [2, 3], false, none) : tensor<2x64xf32, cpu>\n"
                   "  return %5\n"
                   "}\n"),
            "graph @channels_last (%0: tensor<2x3x8x8xf32, cpu>, %1: tensor<64x3x1x1xf32, cpu>) {\n"
            "  %2 = aten.clone(%0, channels_last) : tensor<2x3x8x8xf32, cpu, strides=[192, 1, 24, 3]>\n"
            "  %3 = aten.convolution(%2, %1, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : tensor<2x64x8x8xf32, "
            "cpu, strides=[4096, 1, 512, 64]>\n"
            "  %4 = aten.convolution(%2, %1, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : tensor<2x64x8x8xf32, "
            "cpu, strides=[4096, 1, 512, 64]>\n"
            "  %5 = aten.mul.Tensor(%3, %4) : tensor<2x64x8x8xf32, cpu, strides=[4096, 1, 512, 64]>\n"
            "  %6 = aten.mean.dim(%5, [2, 3], false, none) : tensor<2x64xf32, cpu>\n"
            "  return %6\n"
            "}\n");
}

TEST(ChannelsLastTest, ImagesAreCopiedInThePlaceOfAWeightThatIsLarger) {
  EXPECT_EQ(
      relaid(
          "graph @g (%0: tensor<2x3x8x8xf32, cpu>, %1: tensor<64x3x1x1xf32, cpu>, %2: tensor<64x64x3x3xf32, cpu>) {\n"
          "  %3 = aten.convolution(%0, %1, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : tensor<2x64x8x8xf32, "
          "cpu>\n"
          "  %4 = aten.convolution(%0, %1, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : tensor<2x64x8x8xf32, "
          "cpu>\n"
          "  %5 = aten.convolution(%0, %1, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : tensor<2x64x8x8xf32, "
          "cpu>\n"
          "  %6 = aten.mul.Tensor(%3, %4) : tensor<2x64x8x8xf32, cpu>\n"
          "  %7 = aten.mul.Tensor(%6, %5) : tensor<2x64x8x8xf32, cpu>\n"
          "  %8 = aten.convolution(%7, %2, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : tensor<2x64x6x6xf32, "
          "cpu>\n"
          "  return %8\n"
          "}\n"),
      "graph @channels_last (%0: tensor<2x3x8x8xf32, cpu>, %1: tensor<64x3x1x1xf32, cpu>, %2: tensor<64x64x3x3xf32, "
      "cpu>) {\n"
      "  %3 = aten.clone(%0, channels_last) : tensor<2x3x8x8xf32, cpu, strides=[192, 1, 24, 3]>\n"
      "  %4 = aten.convolution(%3, %1, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : tensor<2x64x8x8xf32, cpu, "
      "strides=[4096, 1, 512, 64]>\n"
      "  %5 = aten.convolution(%3, %1, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : tensor<2x64x8x8xf32, cpu, "
      "strides=[4096, 1, 512, 64]>\n"
      "  %6 = aten.convolution(%3, %1, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : tensor<2x64x8x8xf32, cpu, "
      "strides=[4096, 1, 512, 64]>\n"
      "  %7 = aten.mul.Tensor(%4, %5) : tensor<2x64x8x8xf32, cpu, strides=[4096, 1, 512, 64]>\n"
      "  %8 = aten.mul.Tensor(%7, %6) : tensor<2x64x8x8xf32, cpu, strides=[4096, 1, 512, 64]>\n"
      "  %9 = aten.clone(%8, contiguous_format) : tensor<2x64x8x8xf32, cpu>\n"
      "  %10 = aten.convolution(%9, %2, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : tensor<2x64x6x6xf32, cpu>\n"
      "  return %10\n"
      "}\n");
}

TEST(ChannelsLastTest, WhereMoreIsCopiedThanComputedGraphsStay) {
  EXPECT_EQ(relaid("graph @g (%0: tensor<2x3x8x8xf32, cpu>, %1: tensor<4x3x1x1xf32, cpu>) {\n"
                   "  %2 = aten.convolution(%0, %1, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : "
                   "tensor<2x4x8x8xf32, cpu>\n"
                   "  return %2\n"
                   "}\n"),
            "");
}

}  // namespace
}  // namespace framejit::graph
