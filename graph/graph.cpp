#include "graph/graph.h"

#include <algorithm>

namespace framejit::graph {
namespace {

const TensorMeta& graph_meta(const void* context, ValueId value) {
  return static_cast<const Graph*>(context)->meta(value);
}

size_t location_hash(const Location& where) {
  size_t hash = reinterpret_cast<size_t>(where.file.data()) * 31 + reinterpret_cast<size_t>(where.function.data());
  return (hash * 31 + static_cast<size_t>(where.line)) * 31 + where.caller.value;
}

}  // namespace

MetaLookup::MetaLookup(const Graph& graph) : MetaLookup(&graph, &graph_meta) {}

Graph::Graph(std::string name) : name_(std::move(name)) {}

ValueId Graph::add_input(const TensorMeta& meta) {
  Value value;
  value.result.meta = meta;
  value.index = static_cast<uint32_t>(inputs_.size());
  ValueId id(values_.size());
  values_.push_back(std::move(value));
  inputs_.push_back(id);
  return id;
}

NodeId Graph::add_node(OpId op, std::span<const Operand> operands, std::span<const ResultMeta> results,
                       LocationId location) {
  NodeId id(nodes_.size());
  Node node;
  node.op = op;
  node.operands = copy_operands(operands);
  node.operand_count = static_cast<uint32_t>(operands.size());
  node.result_count = static_cast<uint32_t>(results.size());
  node.location = location;
  node.state = new_state_;
  node.recompute = new_recompute_;
  if (!results.empty()) node.first_result = ValueId(values_.size());
  for (uint32_t i = 0; i < results.size(); ++i) {
    Value value;
    value.result = results[i];
    value.definition = id;
    value.index = i;
    values_.push_back(std::move(value));
  }
  nodes_.push_back(node);
  return id;
}

ValueId Graph::add_constant(ConstId constant, const TensorMeta& meta, LocationId location) {
  static const OpId op = intern_op("framejit::constant");
  Operand operand = Operand::constant(constant);
  ResultMeta result;
  result.meta = meta;
  return node(add_node(op, {&operand, 1}, {&result, 1}, location)).first_result;
}

bool Graph::has_states() const {
  return std::any_of(nodes_.begin(), nodes_.end(), [](const Node& n) { return !n.erased && !n.state.empty(); });
}

bool Graph::has_recompute() const {
  return std::any_of(nodes_.begin(), nodes_.end(), [](const Node& n) { return !n.erased && n.recompute != 0; });
}

SubgraphId Graph::add_subgraph(std::shared_ptr<const Graph> body) {
  subgraphs_.push_back(std::move(body));
  return SubgraphId(subgraphs_.size() - 1);
}

LocationId Graph::intern_location(std::string_view file, std::string_view function, int line, LocationId caller) {
  Location where{intern_text(file), intern_text(function), line, caller};
  size_t hash = location_hash(where);
  auto [first, last] = location_ids_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const Location& known = locations_[it->second.index()];
    if (known.file.data() == where.file.data() && known.function.data() == where.function.data() &&
        known.line == line && known.caller == caller)
      return it->second;
  }
  LocationId id(locations_.size());
  locations_.push_back(where);
  location_ids_.emplace(hash, id);
  return id;
}

std::string_view Graph::intern_text(std::string_view text) {
  if (auto found = texts_.find(text); found != texts_.end()) return found->second;
  std::string_view kept(arena_.copy(std::span<const char>(text.data(), text.size())), text.size());
  texts_.emplace(kept, kept);
  return kept;
}

Operand* Graph::copy_operands(std::span<const Operand> operands) {
  Operand* copy = arena_.copy(operands);
  for (size_t i = 0; i < operands.size(); ++i) {
    const Operand& from = operands[i];
    if (!from.is_pointer()) continue;
    if (from.is(Operand::Kind::kScalars)) {
      copy[i] = from.with_ptr(copy_operands(from.as_scalars()));
    } else {
      copy[i] = from.with_ptr(arena_.copy(std::span(static_cast<const std::byte*>(from.ptr()), from.bytes())));
    }
  }
  return copy;
}

void Graph::erase(NodeId id) {
  Node& node = nodes_[id.index()];
  if (node.erased) return;
  node.erased = true;
  ++erased_;
}

ValueId Graph::redefine(NodeId id, OpId op, std::span<const Operand> operands, ValueId result, const ResultMeta& meta) {
  Node& node = nodes_[id.index()];
  FJ_CHECK(!node.erased && node.result_count == 1, "a node that is not there, or of {} results", node.result_count);
  if (!result.valid()) {
    result = ValueId(values_.size());
    values_.push_back({});
  }
  values_[result.index()] = Value{meta, id, 0};
  node.op = op;
  node.operands = copy_operands(operands);
  node.operand_count = static_cast<uint32_t>(operands.size());
  node.first_result = result;
  return result;
}

ValueId Graph::make_input(NodeId id) {
  const Node& node = nodes_[id.index()];
  FJ_CHECK(!node.erased && node.result_count == 1, "a node that is not there, or of {} results", node.result_count);
  const ValueId result = node.first_result;
  erase(id);
  Value& value = values_[result.index()];
  value = Value{{.meta = value.result.meta}, {}, static_cast<uint32_t>(inputs_.size())};
  inputs_.push_back(result);
  return result;
}

void Graph::compact() {
  if (erased_ == 0) return;
  size_t kept = 0;
  for (Node& node : nodes_) {
    if (node.erased) continue;
    for (uint32_t i = 0; i < node.result_count; ++i) values_[node.result(i).index()].definition = NodeId(kept);
    nodes_[kept++] = node;
  }
  nodes_.resize(kept);
  erased_ = 0;
}

void Graph::truncate(size_t node_count, size_t value_count, size_t input_count) {
  for (size_t i = node_count; i < nodes_.size(); ++i) erased_ -= nodes_[i].erased;
  nodes_.resize(std::min(node_count, nodes_.size()));
  inputs_.resize(std::min(input_count, inputs_.size()));
  values_.shrink(value_count);
}

void Graph::replace_uses(ValueId from, ValueId to) {
  for (Node& node : nodes_) {
    // The operands live in this graph's arena, which is not const.
    auto* operands = const_cast<Operand*>(node.operands);
    for (uint32_t i = 0; i < node.operand_count; ++i) {
      if (operands[i].is_value()) {
        if (operands[i].as_value() == from) operands[i] = Operand::value(to);
      } else if (operands[i].is(Operand::Kind::kValues)) {
        auto list = operands[i].as_values();
        std::replace(const_cast<ValueId*>(list.data()), const_cast<ValueId*>(list.data()) + list.size(), from, to);
      }
    }
  }
  std::replace(outputs_.begin(), outputs_.end(), from, to);
}

void Graph::remove_inputs(std::span<const bool> keep) {
  FJ_CHECK(keep.size() == inputs_.size(), "expected {} flags, got {}", inputs_.size(), keep.size());
  size_t kept = 0;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!keep[i]) continue;
    values_[inputs_[i].index()].index = static_cast<uint32_t>(kept);
    inputs_[kept++] = inputs_[i];
  }
  inputs_.resize(kept);
}

Graph Graph::clone() const {
  Graph copy(name_);
  for (const Location& where : locations_) copy.intern_location(where.file, where.function, where.line, where.caller);
  for (size_t i = 0; i < values_.size(); ++i) copy.values_.push_back(values_[i]);
  copy.nodes_ = nodes_;
  for (Node& node : copy.nodes_) node.operands = copy.copy_operands(node.args());
  copy.inputs_ = inputs_;
  copy.outputs_ = outputs_;
  copy.subgraphs_ = subgraphs_;
  copy.erased_ = erased_;
  copy.new_state_ = new_state_;
  copy.new_recompute_ = new_recompute_;
  return copy;
}

std::vector<bool> read_values(const Graph& graph) {
  std::vector<bool> read(graph.value_count());
  auto note = [&](ValueId id) { read[id.index()] = true; };
  for (size_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node(NodeId(n));
    if (node.erased) continue;
    for (const Operand& operand : node.args()) for_each_value(operand, note);
  }
  for (ValueId id : graph.outputs())
    if (id.valid()) note(id);
  return read;
}

}  // namespace framejit::graph
