#include "graph/passes/onednn.h"

namespace framejit::graph {
bool is_plain_f32(const TensorMeta& meta, int64_t dim) {
  return meta.dtype == DType::kF32 && meta.device.is_cpu() && meta.layout == Layout::kStrided && meta.dim() == dim &&
         meta.numel() > 0;
}

// input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
bool is_plain_convolution(const Graph& graph, const Node& node) {
  const bool tensors =
      node.arg(0).is_value() && node.arg(1).is_value() && is_plain_f32(graph.meta(node.arg(0).as_value()), 4) &&
      is_plain_f32(graph.meta(node.arg(1).as_value()), 4) && is_plain_f32(graph.meta(node.result()), 4);
  const bool bias =
      node.arg(2).is_none() || (node.arg(2).is_value() && is_plain_f32(graph.meta(node.arg(2).as_value()), 1));
  return tensors && bias && !node.arg(6).as_bool();
}

}  // namespace framejit::graph
