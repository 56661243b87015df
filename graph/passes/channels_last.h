// A graph of images in which convolutions compute channels last.
//
// oneDNN, which computes LibTorch's convolutions of f32 on the CPU, takes images of that layout as they are; of others
// it makes copies in blocks, and of its results copies back. Weights stay as the program has them, and are copied in
// each call.
#pragma once

#include <optional>

#include "graph/infer.h"
#include "graph/passes/changed_graph.h"

namespace framejit::graph {

// Results are within rounding of the original's; outputs are laid out as there. Nothing where there is no such
// convolution, or where it would copy too much.
std::optional<ChangedGraph> lay_out_channels_last(const Graph& graph, const InferEnvironment& environment);

}  // namespace framejit::graph
