// The graph: tensor operations in program order. SSA in names, not in storage: in-place operators and views are nodes
// like any other, and order is their meaning, so passes may not move a node past one that writes storage it can reach
// (graph/alias.h tells).
//
// - Values are defined once, by an input or as a result of a node. The results of a node are consecutive ids.
// - An in-place operator's return is a new value with alias kSame. Both names mean the same tensor; a user may read
// either.
// - Nodes are a flat array; erase() marks, compact() drops the marked ones (NodeIds change, ValueIds never).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/arena.h"
#include "graph/chunked_vector.h"
#include "graph/infer.h"
#include "graph/op.h"
#include "graph/operand.h"

namespace framejit::graph {

// A line of the user's program. `caller` is the line that called into the function when it was inlined.
struct Location {
  std::string_view file;
  std::string_view function;
  int line = 0;
  LocationId caller;
};

// What of the thread's state an operator runs under, where the program changed it. None: as where the graph runs.
struct NodeState {
  std::optional<bool> inference;  // whether what it makes is of inference mode
  std::optional<DType> default_dtype;

  bool empty() const { return !inference && !default_dtype; }
  bool operator==(const NodeState&) const = default;
};

struct Node {
  OpId op;
  const Operand* operands = nullptr;
  uint32_t operand_count = 0;
  uint32_t result_count = 0;
  ValueId first_result;  // invalid when there are no results
  LocationId location;
  bool erased = false;
  // Not 0: which call of a checkpointed function it is of. Its results are computed again in the backward, not kept.
  uint32_t recompute = 0;
  NodeState state;

  std::span<const Operand> args() const { return {operands, operand_count}; }
  const Operand& arg(size_t i) const { return operands[i]; }
  ValueId result(size_t i = 0) const { return ValueId(first_result.value + static_cast<uint32_t>(i)); }
};

struct Value {
  ResultMeta result;   // meta, and what it aliases
  NodeId definition;   // invalid for an input
  uint32_t index = 0;  // which result of the node, or which input

  bool is_input() const { return !definition.valid(); }
};

class Graph {
 public:
  explicit Graph(std::string name = "graph");
  Graph(Graph&&) noexcept = default;
  Graph& operator=(Graph&&) noexcept = default;

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }

  // Building. Inputs may be added at any time, also between nodes: the recorder finds them as it goes.
  ValueId add_input(const TensorMeta& meta);
  NodeId add_node(OpId op, std::span<const Operand> operands, std::span<const ResultMeta> results,
                  LocationId location = {});
  // Of the nodes that are added from here on.
  void set_new_state(const NodeState& state) { new_state_ = state; }
  void set_new_recompute(uint32_t recompute) { new_recompute_ = recompute; }
  // A tensor of the runtime's constant pool: a node `framejit.constant(const<3>)`.
  ValueId add_constant(ConstId constant, const TensorMeta& meta, LocationId location = {});
  void set_outputs(std::span<const ValueId> outputs) { outputs_.assign(outputs.begin(), outputs.end()); }
  // A body for an operand to name. Its name must be its own among the bodies of this graph. It is not changed any more.
  SubgraphId add_subgraph(std::shared_ptr<const Graph> body);
  // The same place gives the same id.
  LocationId intern_location(std::string_view file, std::string_view function, int line, LocationId caller = {});

  // Reading.
  std::span<const ValueId> inputs() const { return inputs_; }
  std::span<const ValueId> outputs() const { return outputs_; }
  size_t node_count() const { return nodes_.size(); }  // erased ones included, until compact()
  size_t live_node_count() const { return nodes_.size() - erased_; }
  size_t value_count() const { return values_.size(); }
  const Node& node(NodeId id) const { return nodes_[id.index()]; }
  const Value& value(ValueId id) const { return values_[id.index()]; }
  const TensorMeta& meta(ValueId id) const { return values_[id.index()].result.meta; }
  bool has_states() const;  // of any node
  bool has_recompute() const;
  const Location& location(LocationId id) const { return locations_[id.index()]; }
  size_t location_count() const { return locations_.size(); }
  size_t subgraph_count() const { return subgraphs_.size(); }
  const std::shared_ptr<const Graph>& subgraph(SubgraphId id) const { return subgraphs_[id.index()]; }

  // Changing.
  void set_state(NodeId id, const NodeState& state) { nodes_[id.index()].state = state; }
  TensorMeta& mutable_meta(ValueId id) { return values_[id.index()].result.meta; }
  void erase(NodeId id);
  // Another operator in the place of this one, of one result: `result`, which no other node defines from here on, or a
  // new value. Returns it. What the node has defined so far must have no readers.
  ValueId redefine(NodeId id, OpId op, std::span<const Operand> operands, ValueId result, const ResultMeta& meta);
  // The only result of this node, which goes, is an input from here on.
  ValueId make_input(NodeId id);
  void compact();
  // Drops nodes from `first` on, and the values they define: a capture that stops in the middle of an instruction.
  // Inputs added since then must not be used by what stays; they go too when `input_count` says so.
  void truncate(size_t node_count, size_t value_count, size_t input_count);
  // In operands and outputs.
  void replace_uses(ValueId from, ValueId to);
  void remove_inputs(std::span<const bool> keep);
  // A graph with the same nodes, values, locations and outputs.
  Graph clone() const;

 private:
  Operand* copy_operands(std::span<const Operand> operands);
  std::string_view intern_text(std::string_view text);

  std::string name_;
  std::vector<Node> nodes_;
  ChunkedVector<Value> values_;
  std::vector<ValueId> inputs_;
  std::vector<ValueId> outputs_;
  std::vector<std::shared_ptr<const Graph>> subgraphs_;
  std::vector<Location> locations_;
  std::unordered_multimap<size_t, LocationId> location_ids_;
  std::unordered_map<std::string_view, std::string_view> texts_;
  Arena arena_;
  size_t erased_ = 0;
  NodeState new_state_;
  uint32_t new_recompute_ = 0;
};

// Calls f(ValueId) for each value that an operand names, elements of lists included, None elements not.
template <class F>
void for_each_value(const Operand& operand, F&& f) {
  if (operand.is_value()) {
    f(operand.as_value());
  } else if (operand.is(Operand::Kind::kValues)) {
    for (ValueId id : operand.as_values())
      if (id.valid()) f(id);
  }
}

// By value: whether a node reads it, or it is an output.
std::vector<bool> read_values(const Graph& graph);

}  // namespace framejit::graph
