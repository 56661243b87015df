// A number for which Python raises is best found before anything is written: then a run that ends there leaves nothing
// to be taken back (an optimiser's step computes its numbers out of a count of steps, between writes to parameters).
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace framejit::graph {

// Memory of inputs and of constants: two of them may be views of one storage.
enum class OutsideMemory : uint8_t { kMayOverlap, kLiesApart };

// By node: those that compute such numbers and all that they need, which may run before all others, in their order.
// Empty if there are none. `bound`: nodes that do not run by themselves.
std::vector<bool> nodes_of_numbers(const Graph& graph, const std::vector<bool>& bound, OutsideMemory outside);

}  // namespace framejit::graph
