#include "graph/split.h"

#include <algorithm>
#include <unordered_map>

namespace framejit::graph {
namespace {

class Splitter {
 public:
  Splitter(const Graph& whole, const SplitRequest& request)
      : whole_(whole), request_(request), split_{Graph(request.name), {}, {}} {}

  Split run() {
    // Captured values come first, so they are looked for before anything is built.
    for_each_copied([&](const Node& node) {
      for (const Operand& operand : node.args()) for_each_value(operand, [&](ValueId value) { note_captured(value); });
    });
    for (ValueId value : request_.outputs)
      if (value.valid()) note_captured(value);
    for (ValueId value : request_.parameters) mapped_[value.value] = split_.graph.add_input(whole_.meta(value));
    for_each_copied([&](const Node& node) { copy(node); });
    std::vector<ValueId> outputs;
    for (ValueId value : request_.outputs) {
      split_.outputs.push_back(value.valid() ? mapped_.at(value.value) : ValueId());
      if (value.valid()) outputs.push_back(split_.outputs.back());
    }
    split_.graph.set_outputs(outputs);
    return std::move(split_);
  }

 private:
  bool is_parameter(ValueId value) const {
    return std::find(request_.parameters.begin(), request_.parameters.end(), value) != request_.parameters.end();
  }

  template <class F>
  void for_each_copied(F&& f) {
    for (size_t n = request_.first_node; n < whole_.node_count(); ++n) {
      const Node& node = whole_.node(NodeId(n));
      if (!node.erased && !(node.result_count > 0 && is_parameter(node.result()))) f(node);
    }
  }

  void note_captured(ValueId value) {
    const bool before = value.index() < request_.first_value || whole_.value(value).is_input();
    if (!before || mapped_.count(value.value) || is_parameter(value)) return;
    mapped_[value.value] = split_.graph.add_input(whole_.meta(value));
    split_.captured.push_back(value);
  }

  LocationId copy_location(LocationId id) {
    if (!id.valid() || !request_.locations) return {};
    const Location& where = whole_.location(id);
    return split_.graph.intern_location(where.file, where.function, where.line, copy_location(where.caller));
  }

  Operand copy_operand(const Operand& operand, std::vector<ValueId>& list) {
    if (operand.is_value()) return Operand::value(mapped_.at(operand.as_value().value));
    if (operand.is(Operand::Kind::kSubgraph))
      return Operand::subgraph(split_.graph.add_subgraph(whole_.subgraph(operand.as_subgraph())));
    if (!operand.is(Operand::Kind::kValues)) return operand;
    for (ValueId id : operand.as_values()) list.push_back(id.valid() ? mapped_.at(id.value) : ValueId());
    return Operand::values(list);
  }

  void copy(const Node& node) {
    std::vector<Operand> operands;
    std::vector<std::vector<ValueId>> lists(node.operand_count);
    for (size_t i = 0; i < node.operand_count; ++i) operands.push_back(copy_operand(node.arg(i), lists[i]));
    std::vector<ResultMeta> results;
    for (size_t i = 0; i < node.result_count; ++i) results.push_back(whole_.value(node.result(i)).result);
    split_.graph.set_new_state(node.state);
    const Node& made =
        split_.graph.node(split_.graph.add_node(node.op, operands, results, copy_location(node.location)));
    for (size_t i = 0; i < node.result_count; ++i) mapped_[node.result(i).value] = made.result(i);
  }

  const Graph& whole_;
  const SplitRequest& request_;
  Split split_;
  std::unordered_map<uint32_t, ValueId> mapped_;
};

}  // namespace

Split split_off(const Graph& whole, const SplitRequest& request) { return Splitter(whole, request).run(); }

}  // namespace framejit::graph
