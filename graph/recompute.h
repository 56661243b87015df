// Checkpointed functions (torch.utils.checkpoint): what they did is computed again in the backward rather than kept.
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"

namespace framejit::graph {

// Whether the nodes from `first` on may run twice, in the forward and for the backward, with the same results and with
// no more effects than once: why not, in words. `same_random`: random numbers are to be those of the forward.
std::optional<std::string> why_not_recompute(const Graph& graph, NodeId first, bool same_random);

}  // namespace framejit::graph
