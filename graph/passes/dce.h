// Dead code elimination. A node goes when no live node or output reads its results and it has no effect of its own.
// Kept: random operators (the generator's state is an effect), operators with side effects or data-dependent results,
// operators of unknown schema, and writes into storage that an input, an output or a live node can see.
#pragma once

#include "graph/graph.h"

namespace framejit::graph {

// Returns how many nodes it erased. Inputs stay, used or not.
size_t eliminate_dead_code(Graph& graph);

}  // namespace framejit::graph
