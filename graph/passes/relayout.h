// A copy of a graph in which some values are laid out otherwise than in the original: channels last, say. What follows
// takes that over where its operator gives the same numbers in any layout, and gets a copy in the old layout where not.
#pragma once

#include <unordered_map>
#include <vector>

#include "graph/alias.h"
#include "graph/builder.h"
#include "graph/node_copy.h"
#include "graph/passes/changed_graph.h"

namespace framejit::graph {

class Relayout {
 public:
  Relayout(const Graph& from, Graph& to, const InferEnvironment& environment);

  bool has(ValueId old) const { return copy_.has(old); }
  // As it is laid out in the copy.
  ValueId at(ValueId old) const { return copy_.at(old); }
  // As it is laid out in the original.
  ValueId as_before(ValueId old);
  void add_input(ValueId old) { copy_.add_input(old); }
  // In the place of a value of the original: the same numbers, in any layout without holes. False if it would have to
  // be laid out as before and cannot.
  bool put(ValueId old, ValueId value);
  // A node of the original, whose operands are there. False if it cannot be copied.
  bool add(const Node& node);
  LocationId location(const Node& node) { return copy_.copy_location(node.location); }
  // Elements that were copied into the old layout so far.
  int64_t copied() const { return copied_; }
  // The copy is complete but for its outputs. False if one of them cannot be laid out as before.
  bool finish(std::vector<ValueId>& values);

 private:
  bool is_relaid(ValueId old) const { return relaid_[old.index()]; }
  bool reads_relaid(const Node& node) const;
  bool add_in_new_layout(const Node& node);
  bool add_in_old_layout(const Node& node);
  void forget_copies(const Node& node);
  void find_fixed();

  const Graph& from_;
  Graph& to_;
  const InferEnvironment environment_;
  const AliasClasses aliases_;
  NodeCopy copy_;
  Builder builder_;
  InferOutput results_;
  std::vector<bool> fixed_;                          // by alias class: its members stay as they are laid out
  std::vector<bool> relaid_;                         // by value of the original
  std::unordered_map<uint32_t, ValueId> in_before_;  // by value of the original: a copy in the old layout
  int64_t copied_ = 0;
};

}  // namespace framejit::graph
