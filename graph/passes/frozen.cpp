#include "graph/passes/frozen.h"

#include "graph/alias.h"
#include "graph/control_flow.h"
#include "graph/failure.h"
#include "graph/node_copy.h"
#include "graph/passes/dce.h"

namespace framejit::graph {
namespace {

bool is_pure(const Graph& graph, const Node& node) {
  constexpr uint32_t kNever = kOpMutates | kOpInPlace | kOpMetaInPlace | kOpRandom | kOpDataDependent | kOpSideEffect |
                              kOpUninitialized | kOpMaybeView;
  const OpInfo& info = op_info(node.op);
  // Operators of others may do anything, those of the oneDNN library are LibTorch's.
  const bool known = info.name.starts_with("aten::") || info.name.starts_with("mkldnn::");
  if (!known || info.schema.empty() || (info.flags & kNever) || is_control_flow(node.op) || !node.state.empty())
    return false;
  if (!info.name.starts_with("mkldnn::") && may_raise(graph, node)) return false;
  for (size_t i = 0; i < node.result_count; ++i)
    if (graph.value(node.result(i)).result.kind != ResultKind::kTensor) return false;
  return true;
}

// By alias class.
std::vector<bool> classes_that_change(const Graph& graph, const AliasClasses& aliases) {
  std::vector<bool> changed(aliases.size());
  std::vector<ValueId> written;
  for (size_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node(NodeId(static_cast<uint32_t>(n)));
    if (node.erased) continue;
    written_values(graph, node, written);
    for (ValueId id : written) changed[aliases.of(id)] = true;
  }
  return changed;
}

std::vector<bool> classes_of_outputs(const Graph& graph, const AliasClasses& aliases) {
  std::vector<bool> classes(aliases.size());
  for (ValueId id : graph.outputs())
    if (id.valid()) classes[aliases.of(id)] = true;
  return classes;
}

class Splitter {
 public:
  Splitter(const Graph& graph, std::vector<bool> frozen)
      : graph_(graph), frozen_(std::move(frozen)), once_(graph, split_.once, true), rest_(graph, split_.rest, true) {}

  FrozenSplit run() {
    for (ValueId input : graph_.inputs()) rest_.add_input(input);
    for (size_t n = 0; n < graph_.node_count(); ++n) {
      const Node& node = graph_.node(NodeId(static_cast<uint32_t>(n)));
      if (!node.erased && is_frozen(node)) compute_once(node);
    }
    hand_over();
    for (size_t n = 0; n < graph_.node_count(); ++n) {
      const Node& node = graph_.node(NodeId(static_cast<uint32_t>(n)));
      if (!node.erased && !is_frozen(node)) rest_.add(node);
    }
    std::vector<ValueId> outputs;
    for (ValueId id : graph_.outputs()) outputs.push_back(id.valid() ? rest_.at(id) : ValueId());
    split_.rest.set_outputs(outputs);
    split_.values.resize(graph_.value_count());
    for (size_t i = 0; i < split_.values.size(); ++i)
      if (rest_.has(value(i))) split_.values[i] = rest_.at(value(i));
    eliminate_dead_code(split_.once);
    split_.once.compact();
    return std::move(split_);
  }

 private:
  static ValueId value(size_t index) { return ValueId(static_cast<uint32_t>(index)); }
  bool is_frozen(const Node& node) const { return node.result_count > 0 && frozen_[node.result().index()]; }

  void compute_once(const Node& node) {
    for (const Operand& operand : node.args())
      for_each_value(operand, [&](ValueId id) {
        if (once_.has(id)) return;
        split_.inputs.push_back(graph_.value(id).index);
        once_.add_input(id);
      });
    once_.add(node);
  }

  // What the rest reads of it.
  void hand_over() {
    std::vector<ValueId> outputs;
    auto hand = [&](ValueId id) {
      if (rest_.has(id) || !once_.has(id)) return;
      outputs.push_back(once_.at(id));
      rest_.add_input(id);
    };
    for (size_t n = 0; n < graph_.node_count(); ++n) {
      const Node& node = graph_.node(NodeId(static_cast<uint32_t>(n)));
      if (node.erased || is_frozen(node)) continue;
      for (const Operand& operand : node.args()) for_each_value(operand, hand);
    }
    split_.once.set_outputs(outputs);
  }

  const Graph& graph_;
  const std::vector<bool> frozen_;
  FrozenSplit split_;
  NodeCopy once_;
  NodeCopy rest_;
};

}  // namespace

std::vector<bool> frozen_values(const Graph& graph, const std::vector<bool>& frozen_inputs) {
  const AliasClasses aliases(graph);
  const std::vector<bool> changed = classes_that_change(graph, aliases), seen = classes_of_outputs(graph, aliases);
  std::vector<bool> frozen(graph.value_count());
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueId input = graph.inputs()[i];
    frozen[input.index()] = frozen_inputs[i] && !changed[aliases.of(input)];
  }
  for (size_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node(NodeId(static_cast<uint32_t>(n)));
    if (node.erased || !is_pure(graph, node)) continue;
    bool all = true;
    for (const Operand& operand : node.args()) for_each_value(operand, [&](ValueId id) { all &= frozen[id.index()]; });
    for (size_t i = 0; i < node.result_count; ++i)
      all &= !changed[aliases.of(node.result(i))] && !seen[aliases.of(node.result(i))];
    for (size_t i = 0; i < node.result_count; ++i) frozen[node.result(i).index()] = all;
  }
  return frozen;
}

FrozenSplit split_frozen(const Graph& graph, const std::vector<bool>& frozen_inputs) {
  return Splitter(graph, frozen_values(graph, frozen_inputs)).run();
}

}  // namespace framejit::graph
