// Convolutions and products with frozen weights become operators of oneDNN over weights in a layout of its own. Batch
// norm with frozen statistics becomes part of the convolution in front of it, an activation behind these too.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"
#include "graph/infer.h"
#include "graph/passes/changed_graph.h"

namespace framejit::graph {

// Invalid where LibTorch has no such operator.
struct PackedOps {
  OpId pack_convolution;  // mkldnn::_reorder_convolution_weight
  OpId convolution;       // mkldnn::_convolution_pointwise
  OpId pack_linear;       // mkldnn::_reorder_linear_weight
  OpId linear;            // mkldnn::_linear_pointwise
};

// Results are within rounding of the original's; outputs are laid out as there. Nothing if there is nothing to pack.
std::optional<ChangedGraph> pack_weights(const Graph& graph, const std::vector<bool>& frozen_inputs,
                                         const PackedOps& ops, const InferEnvironment& environment);

}  // namespace framejit::graph
