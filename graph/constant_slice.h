// What a value is computed by when nothing goes into it but constants: `torch.arange(n)`, a mask of ones.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace framejit::graph {

// By node: whether it must run for `value` to be what it is after the last node. Nothing where an input, a random
// number, memory as it was found, an operator that may raise, or one without a rule of ours goes into it.
std::optional<std::vector<bool>> constant_slice(const Graph& graph, ValueId value);

}  // namespace framejit::graph
