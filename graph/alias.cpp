#include "graph/alias.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace framejit::graph {
namespace {

ValueId alias_source(const Node& node, const ResultMeta& result) {
  if (result.alias == AliasKind::kFresh || result.alias_operand < 0) return {};
  const Operand& operand = node.arg(static_cast<size_t>(result.alias_operand));
  if (operand.is_value()) return operand.as_value();
  if (operand.is(Operand::Kind::kValues) && result.alias_element >= 0)
    return operand.as_values()[static_cast<size_t>(result.alias_element)];
  return {};
}

}  // namespace

AliasClasses::AliasClasses(const Graph& graph)
    : parent_(graph.value_count()),
      escapes_(graph.value_count(), false),
      inputs_(graph.value_count(), false),
      constants_(graph.value_count(), false) {
  std::iota(parent_.begin(), parent_.end(), 0);
  static const OpId constant = intern_op("framejit::constant");
  std::vector<ValueId> visible(graph.inputs().begin(), graph.inputs().end()), constants;
  for (size_t i = 0; i < graph.node_count(); ++i) {
    const Node& node = graph.node(NodeId(i));
    if (node.erased) continue;
    bool unknown = op_info(node.op).schema.empty();
    for (uint32_t r = 0; r < node.result_count; ++r) {
      ValueId source = alias_source(node, graph.value(node.result(r)).result);
      if (source.valid()) join(node.result(r), source);
      if (node.op == constant) constants.push_back(node.result(r));
      // Without a schema a result may be any of the operands.
      if (unknown)
        for (const Operand& operand : node.args())
          for_each_value(operand, [&](ValueId id) { join(node.result(r), id); });
    }
  }
  for (ValueId id : graph.outputs())
    if (id.valid()) visible.push_back(id);
  visible.insert(visible.end(), constants.begin(), constants.end());
  for (ValueId id : constants) constants_[of(id)] = true;
  for (ValueId id : visible) escapes_[of(id)] = true;
  for (ValueId id : graph.inputs()) inputs_[of(id)] = true;
}

uint32_t AliasClasses::of(ValueId value) const {
  uint32_t at = value.value;
  while (parent_[at] != at) at = parent_[at] = parent_[parent_[at]];
  return at;
}

void AliasClasses::join(ValueId a, ValueId b) { parent_[of(a)] = of(b); }

namespace {

bool writes_statistics(const OpInfo& info, const Node& node) {
  if (!info.has(kOpWritesStatistics)) return false;
  for (size_t i = 0; i < node.operand_count; ++i)
    if (info.parsed.args[i].name == "training") return !node.arg(i).is(Operand::Kind::kBool) || node.arg(i).as_bool();
  return true;
}

}  // namespace

void written_values(const Graph& graph, const Node& node, std::vector<ValueId>& out) {
  out.clear();
  const OpInfo& info = op_info(node.op);
  const bool unknown = info.schema.empty(), statistics = writes_statistics(info, node);
  if (!unknown && !statistics && !info.has(kOpMutates)) return;
  auto is_statistic = [&](size_t i) { return statistics && info.parsed.args[i].name.starts_with("running_"); };
  for (size_t i = 0; i < node.operand_count; ++i)
    if (unknown || info.writes_arg(i) || is_statistic(i))
      for_each_value(node.arg(i), [&](ValueId id) { out.push_back(id); });
}

bool writes_anything(const Graph& graph) {
  std::vector<ValueId> written;
  for (size_t n = 0; n < graph.node_count(); ++n) {
    if (graph.node(NodeId(n)).erased) continue;
    written_values(graph, graph.node(NodeId(n)), written);
    if (!written.empty()) return true;
  }
  return false;
}

std::vector<ValueId> written_inputs(const Graph& graph) {
  if (!writes_anything(graph)) return {};
  const AliasClasses aliases(graph);
  std::vector<ValueId> written, all;
  for (size_t n = 0; n < graph.node_count(); ++n) {
    if (graph.node(NodeId(n)).erased) continue;
    written_values(graph, graph.node(NodeId(n)), written);
    std::copy_if(written.begin(), written.end(), std::back_inserter(all),
                 [&](ValueId id) { return aliases.is_input(id); });
  }
  return all;
}

}  // namespace framejit::graph
