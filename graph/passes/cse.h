// Common subexpressions: operators that compute again, from the same operands, what is there already.
#pragma once

#include <span>

#include "graph/graph.h"

namespace framejit::graph {

// Erases them: what read their results reads those of the first. Returns how many. Results stay two tensors where
// somebody could tell: where one of them is written, or the later one shares memory with an output or one of `seen`.
// Kept as well are random operators, views, what reads memory that the graph writes, and what has effects or an unknown
// schema.
size_t merge_common_subexpressions(Graph& graph, std::span<const ValueId> seen);

}  // namespace framejit::graph
