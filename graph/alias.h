// Which values may share storage: classes under the alias facts that inference left on the results.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace framejit::graph {

class AliasClasses {
 public:
  explicit AliasClasses(const Graph& graph);

  // Two values may share storage iff their classes are equal.
  uint32_t of(ValueId value) const;
  bool may_alias(ValueId a, ValueId b) const { return of(a) == of(b); }
  // Whether something outside the graph can see the class: it holds an input, a constant or an output.
  bool escapes(ValueId value) const { return escapes_[of(value)]; }
  // Whether the class holds an input: writing it is seen by the caller.
  bool is_input(ValueId value) const { return inputs_[of(value)]; }
  // Whether the class holds a tensor of the constant pool.
  bool is_constant(ValueId value) const { return constants_[of(value)]; }
  size_t size() const { return parent_.size(); }

 private:
  void join(ValueId a, ValueId b);

  mutable std::vector<uint32_t> parent_;
  std::vector<bool> escapes_;
  std::vector<bool> inputs_;
  std::vector<bool> constants_;
};

// The values that a node writes. Of an operator with unknown schema: all of its operands.
void written_values(const Graph& graph, const Node& node, std::vector<ValueId>& out);

bool writes_anything(const Graph& graph);

// What the graph writes of its inputs: inputs, and values that may share storage with one.
std::vector<ValueId> written_inputs(const Graph& graph);

}  // namespace framejit::graph
