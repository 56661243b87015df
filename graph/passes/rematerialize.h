// What a backward keeps of its forward. Instead of a value that is cheap to compute again it may keep what that is
// computed from, where this is less memory: the least cut between what has to be kept and what the backward reads
// (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016, names the trade; the cut is that of data flow).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "graph/alias.h"
#include "graph/graph.h"

namespace framejit::graph {

// Whether the node's results are computed again rather than kept. Those of nodes marked `recompute` are anyway.
using IsCheap = bool (*)(const Graph& graph, const Node& node);

struct Rematerialized {
  Graph graph;                  // its inputs: the kept values, then the further inputs of the backward
  std::vector<ValueId> values;  // of the new graph, for each of those asked for; invalid where these are
};

// Over the nodes and values that `forward` has when this is made; further ones may come and go.
class Rematerialization {
 public:
  Rematerialization(const Graph& forward, IsCheap is_cheap);

  // Values of the forward to keep, so that those of `needed` are there or can be computed. All of `needed` that the
  // program sees stay as they are: inputs, constants, and what shares storage with `seen`; and those of at most `small`
  // bytes, which are not worth an operator. Inputs that `needed` has not are small ones, and the program may write them
  // before the backward runs: copies are to be kept.
  std::vector<ValueId> values_to_keep(std::span<const ValueId> needed, std::span<const ValueId> seen,
                                      int64_t small) const;

  // `backward`, whose first inputs are the values `needed` of the forward, over the values `kept`: what is missing is
  // computed in front of the first node that reads it. Nothing if `kept` does not do. `values`: of the backward.
  std::optional<Rematerialized> over(const Graph& backward, std::span<const ValueId> needed,
                                     std::span<const ValueId> kept, std::span<const ValueId> values) const;

  // What of the forward can be had when its backward runs, as it was when the forward read it.
  bool is_written(ValueId id) const { return written_[aliases_.of(id)]; }
  // It comes of a node that gives the same again, given what the node reads.
  bool is_repeatable(ValueId id) const {
    return !graph_.value(id).is_input() && repeatable_[graph_.value(id).definition.index()];
  }
  const Node& origin(ValueId id) const { return graph_.node(graph_.value(id).definition); }
  const AliasClasses& aliases() const { return aliases_; }
  const Graph& graph() const { return graph_; }

 private:
  bool reads_what_stays(const Node& node) const;

  const Graph& graph_;
  const AliasClasses aliases_;
  std::vector<bool> written_;     // by alias class
  std::vector<bool> repeatable_;  // by node
};

}  // namespace framejit::graph
