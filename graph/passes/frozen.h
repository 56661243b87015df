// What a graph computes from frozen inputs alone is computed once, not in each call.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace framejit::graph {

// By value: whether it holds the same in each call as long as the frozen inputs do. Those that nobody writes, and what
// operators without effects make of such values, but nothing that shares storage with an output.
std::vector<bool> frozen_values(const Graph& graph, const std::vector<bool>& frozen_inputs);

struct FrozenSplit {
  Graph once{"once"};            // its inputs: frozen inputs of the whole
  std::vector<uint32_t> inputs;  // which ones
  Graph rest{"rest"};            // its inputs: those of the whole, then the outputs of `once`
  std::vector<ValueId> values;   // of the rest, by value of the whole; invalid where it has none
};

// `graph` must not be changed while the parts are made, and has no bodies.
FrozenSplit split_frozen(const Graph& graph, const std::vector<bool>& frozen_inputs);

}  // namespace framejit::graph
