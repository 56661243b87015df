#include "graph/node_copy.h"

namespace framejit::graph {

ValueId NodeCopy::add_input(ValueId from) {
  const ValueId input = to_.add_input(from_.meta(from));
  map(from, input);
  return input;
}

LocationId NodeCopy::copy_location(LocationId id) {
  if (!id.valid() || !locations_) return {};
  const Location& where = from_.location(id);
  return to_.intern_location(where.file, where.function, where.line, copy_location(where.caller));
}

Operand NodeCopy::copy_operand(const Operand& operand, std::vector<ValueId>& list) {
  if (operand.is_value()) return Operand::value(at(operand.as_value()));
  if (operand.is(Operand::Kind::kSubgraph))
    return Operand::subgraph(to_.add_subgraph(from_.subgraph(operand.as_subgraph())));
  if (!operand.is(Operand::Kind::kValues)) return operand;
  for (ValueId id : operand.as_values()) list.push_back(id.valid() ? at(id) : ValueId());
  return Operand::values(list);
}

std::vector<Operand> NodeCopy::operands_of(const Node& node, std::vector<std::vector<ValueId>>& lists) {
  std::vector<Operand> operands;
  lists.resize(node.operand_count);
  for (size_t i = 0; i < node.operand_count; ++i) operands.push_back(copy_operand(node.arg(i), lists[i]));
  return operands;
}

void NodeCopy::add(const Node& node) {
  std::vector<ResultMeta> results;
  for (size_t i = 0; i < node.result_count; ++i) results.push_back(from_.value(node.result(i)).result);
  add(node, results);
}

void NodeCopy::add(const Node& node, std::span<const ResultMeta> results) {
  std::vector<std::vector<ValueId>> lists;
  const std::vector<Operand> operands = operands_of(node, lists);
  to_.set_new_state(node.state);
  to_.set_new_recompute(node.recompute);
  const Node& made = to_.node(to_.add_node(node.op, operands, results, copy_location(node.location)));
  for (size_t i = 0; i < node.result_count; ++i) map(node.result(i), made.result(i));
}

}  // namespace framejit::graph
