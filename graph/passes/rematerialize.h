// What a backward keeps of its forward. Instead of a value that is cheap to compute again it may keep what that is
// computed from, where this is less memory: the least cut between what has to be kept and what the backward reads
// (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016, names the trade; the cut is that of data flow).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/passes/contents.h"

namespace framejit::graph {

struct Rematerialized {
  Graph graph;                  // its inputs: the kept values, then the further inputs of the backward
  std::vector<ValueId> values;  // of the new graph, for each of those asked for; invalid where these are
};

// Over the nodes and values that `forward` has when this is made; further ones may come and go. It computes with the
// contents of values (contents.h), so what the forward writes in place can be computed again like all else.
class Rematerialization {
 public:
  // `is_cheap`: whether the node's results are computed again rather than kept, because a kernel computes them. Those
  // of nodes marked `recompute` are anyway.
  Rematerialization(const Graph& forward, HasKernel is_cheap);

  // Values of the forward to keep, so that those of `needed` are there or can be computed. All of `needed` that the
  // program sees stay as they are: inputs, constants, and what shares storage with `seen`; and those of at most `small`
  // bytes, which are not worth an operator. Inputs that `needed` has not are small ones, and the program may write them
  // before the backward runs: copies are to be kept.
  std::vector<ValueId> values_to_keep(std::span<const ValueId> needed, std::span<const ValueId> seen,
                                      int64_t small) const;

  // `backward`, whose first inputs are the values `needed` of the forward, none of which it writes, over the values
  // `kept`: what is missing is computed in front of the first node that reads it, in an order that holds little
  // (schedule.h). Nothing if `kept` does not do. `values`: of the backward.
  std::optional<Rematerialized> over(const Graph& backward, std::span<const ValueId> needed,
                                     std::span<const ValueId> kept, std::span<const ValueId> values) const;

  const Graph& forward() const { return forward_; }
  HasKernel is_cheap() const { return is_cheap_; }
  const AliasClasses& aliases() const { return aliases_; }  // of the forward
  const Graph& contents() const { return contents_.graph; }
  ValueId content_of(ValueId of_forward) const { return contents_.at_end[of_forward.index()]; }
  // Whether the forward writes it in a way that its content does not tell of.
  bool is_written(ValueId of_forward) const { return contents_.unknown[aliases_.of(of_forward)]; }
  // Whether the node of contents() that makes the value gives the same again, given what it reads.
  bool is_repeatable(ValueId content) const {
    const Value& value = contents().value(content);
    return !value.is_input() && repeatable_[value.definition.index()];
  }
  const Node& origin(ValueId content) const { return contents().node(contents().value(content).definition); }

 private:
  const Graph& forward_;
  const HasKernel is_cheap_;
  const AliasClasses aliases_;
  const Contents contents_;
  std::vector<bool> repeatable_;  // by node of contents()
};

}  // namespace framejit::graph
