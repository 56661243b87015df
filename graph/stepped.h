// Operators that make another result altogether of operands that differ in the last bit: comparisons, rounding. Kernels
// and LibTorch's operators do differ there, so what such a one reads in a backward must be what the forward had.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace framejit::graph {

bool is_stepped(const Node& node);

// By input: whether the result of a stepped node hangs on it.
std::vector<bool> inputs_read_by_steps(const Graph& graph);

}  // namespace framejit::graph
