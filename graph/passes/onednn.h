// What LibTorch gives to oneDNN on the CPU.
#pragma once

#include "graph/graph.h"

namespace framejit::graph {

// f32 on the CPU, with elements.
bool is_plain_f32(const TensorMeta& meta, int64_t dim);

// Whether the node, an aten::convolution, is one of such images.
bool is_plain_convolution(const Graph& graph, const Node& node);

}  // namespace framejit::graph
