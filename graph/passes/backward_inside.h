// A graph with a backward inside: a step of training as one function. What the backward reads of the nodes in front of
// it is computed again there, where less is held so, as between the two graphs of a call that leaves a history.
#pragma once

#include <optional>

#include "graph/passes/changed_graph.h"
#include "graph/passes/contents.h"

namespace framejit::graph {

// `backward`: its first node; only what is gained rests on it that this is one. `is_cheap`, `small`: see
// rematerialize.h. The graph that is made reads inputs where the original does not, so it does the same only where what
// it writes of them lies apart from the others. Nothing where nothing is gained.
std::optional<ChangedGraph> recompute_in_backward(const Graph& graph, NodeId backward, HasKernel is_cheap,
                                                  int64_t small);

}  // namespace framejit::graph
