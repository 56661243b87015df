// Whether what some nodes compute is linear in some values, all others held: the sum of two results is the result for
// the sums. Gradients may then arrive in parts.
#pragma once

#include <span>
#include <string>

#include "graph/graph.h"

namespace framejit::graph {

// Of the nodes from `first_node` on: the operator that is not known to be linear in `values`; empty if all `results`
// are linear. Invalid results are none.
std::string first_not_linear(const Graph& graph, size_t first_node, std::span<const ValueId> values,
                             std::span<const ValueId> results);

}  // namespace framejit::graph
