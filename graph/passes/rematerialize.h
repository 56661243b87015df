// What a backward keeps of its forward. Instead of a value that is cheap to compute again it may keep what that is
// computed from, where this is less memory: the least cut between what has to be kept and what the backward reads
// (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016, names the trade; the cut is that of data flow).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace framejit::graph {

// Whether the node's results are computed again rather than kept.
using IsCheap = bool (*)(const Graph& graph, const Node& node);

// Values of `forward` to keep, so that those of `needed` are there or can be computed. All of `needed` that the program
// sees stay as they are: inputs, constants, and what shares storage with `seen`; and those of at most `small` bytes,
// which are not worth an operator. Inputs that `needed` has not are small ones, and the program may write them before
// the backward runs: copies are to be kept.
std::vector<ValueId> values_to_keep(const Graph& forward, std::span<const ValueId> needed,
                                    std::span<const ValueId> seen, IsCheap is_cheap, int64_t small);

struct Rematerialized {
  Graph graph;                  // its inputs: the kept values, then the further inputs of the backward
  std::vector<ValueId> values;  // of the new graph, for each of those asked for; invalid where these are
};

// `backward`, whose first inputs are the values `needed` of `forward`, over the values `kept`: what is missing is
// computed in front of the first node that reads it. Nothing if `kept` does not do. `values`: of the backward.
std::optional<Rematerialized> rematerialize(const Graph& forward, const Graph& backward,
                                            std::span<const ValueId> needed, std::span<const ValueId> kept,
                                            std::span<const ValueId> values, IsCheap is_cheap);

}  // namespace framejit::graph
