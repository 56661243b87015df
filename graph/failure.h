// Which operators may raise when they run, though inference had nothing to say against them.
#pragma once

#include "graph/graph.h"

namespace framejit::graph {

// Whether graph/ops says that the node's kernel raises on some data: an index out of range, a division of integers by
// zero. Want of memory does not count.
bool raises_on_data(const Graph& graph, const Node& node);

// The same, and true for operators that graph/ops does not describe.
bool may_raise(const Graph& graph, const Node& node);

}  // namespace framejit::graph
