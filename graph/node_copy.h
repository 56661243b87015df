// Copies nodes of one graph into another.
#pragma once

#include <unordered_map>
#include <vector>

#include "graph/graph.h"

namespace framejit::graph {

class NodeCopy {
 public:
  NodeCopy(const Graph& from, Graph& to, bool locations) : from_(from), to_(to), locations_(locations) {}

  void map(ValueId from, ValueId to) { mapped_[from.value] = to; }
  bool has(ValueId from) const { return mapped_.count(from.value) != 0; }
  ValueId at(ValueId from) const { return mapped_.at(from.value); }
  // An input of the new graph for a value of the old one.
  ValueId add_input(ValueId from);
  // What the node reads must have been copied or mapped.
  void add(const Node& node);
  // The same, with other metas of its results.
  void add(const Node& node, std::span<const ResultMeta> results);
  // What the node reads, in the new graph. They point into `lists`.
  std::vector<Operand> operands_of(const Node& node, std::vector<std::vector<ValueId>>& lists);
  LocationId copy_location(LocationId id);

 private:
  Operand copy_operand(const Operand& operand, std::vector<ValueId>& list);

  const Graph& from_;
  Graph& to_;
  bool locations_;
  std::unordered_map<uint32_t, ValueId> mapped_;
};

}  // namespace framejit::graph
