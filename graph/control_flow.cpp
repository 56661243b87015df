#include "graph/control_flow.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "graph/alias.h"

namespace framejit::graph {

// A body may hold any operator, so they may raise.
OpId cond_op() {
  static const OpId op = intern_op("framejit::cond",
                                   "framejit::cond(Tensor pred, Graph then, Graph otherwise, Tensor[] then_operands, "
                                   "Tensor[] otherwise_operands) -> Tensor[]",
                                   kOpMayRaise);
  return op;
}

OpId while_loop_op() {
  static const OpId op = intern_op("framejit::while_loop",
                                   "framejit::while_loop(Graph test, Graph body, Tensor[] carried, Tensor[] "
                                   "test_operands, Tensor[] body_operands) -> Tensor[]",
                                   kOpMayRaise);
  return op;
}

namespace {

// The same tensor but for autograd, whose facts are not those of a body.
bool same_kind(TensorMeta a, const TensorMeta& b) {
  a.requires_grad = b.requires_grad;
  return a == b;
}

class Checker {
 public:
  Checker(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  std::optional<std::string> cond() {
    one_element("pred", graph_.meta(node_.arg(0).as_value()));
    for (size_t i : {size_t{1}, size_t{2}}) {
      takes(body(i), values(i + 2));
      gives(body(i), results());
    }
    return wrong_;
  }

  std::optional<std::string> while_loop() {
    const auto carried = values(2);
    for (size_t i : {size_t{0}, size_t{1}}) {
      std::vector<ValueId> operands = values(i + 3);
      operands.insert(operands.end(), carried.begin(), carried.end());
      takes(body(i), operands);
    }
    if (body(0).outputs().size() != 1)
      fail(fmt::format("@{}: expected one output, got {}", body(0).name(), body(0).outputs().size()));
    else
      one_element("the test", body(0).meta(body(0).outputs()[0]));
    gives(body(1), carried);
    same("the results", metas(graph_, results()), metas(graph_, carried));
    return wrong_;
  }

 private:
  const Graph& body(size_t operand) const { return *graph_.subgraph(node_.arg(operand).as_subgraph()); }
  std::vector<ValueId> values(size_t operand) const {
    const Operand& list = node_.arg(operand);
    if (!list.is(Operand::Kind::kValues)) return {};
    return {list.as_values().begin(), list.as_values().end()};
  }
  std::vector<ValueId> results() const {
    std::vector<ValueId> ids;
    for (size_t i = 0; i < node_.result_count; ++i) ids.push_back(node_.result(i));
    return ids;
  }
  static std::vector<TensorMeta> metas(const Graph& graph, std::span<const ValueId> ids) {
    std::vector<TensorMeta> found;
    for (ValueId id : ids) found.push_back(id.valid() ? graph.meta(id) : TensorMeta::undefined());
    return found;
  }

  void fail(std::string what) {
    if (!wrong_) wrong_ = std::move(what);
  }
  void one_element(const char* what, const TensorMeta& meta) {
    if (meta.numel() != 1) fail(fmt::format("{}: expected one element, got {}", what, to_string(meta)));
  }
  void same(const std::string& what, const std::vector<TensorMeta>& got, const std::vector<TensorMeta>& expected) {
    if (got.size() != expected.size())
      return fail(fmt::format("{}: expected {} tensors, got {}", what, expected.size(), got.size()));
    for (size_t i = 0; i < got.size(); ++i)
      if (!same_kind(got[i], expected[i]))
        fail(fmt::format("{}: expected {} at {}, got {}", what, to_string(expected[i]), i, to_string(got[i])));
  }
  void takes(const Graph& body, std::span<const ValueId> operands) {
    same(fmt::format("the operands of @{}", body.name()), metas(graph_, operands), metas(body, body.inputs()));
  }
  void gives(const Graph& body, std::span<const ValueId> expected) {
    same(fmt::format("the outputs of @{}", body.name()), metas(body, body.outputs()), metas(graph_, expected));
    if (auto why = why_not_body(body)) fail(fmt::format("@{}: {}", body.name(), *why));
  }

  const Graph& graph_;
  const Node& node_;
  std::optional<std::string> wrong_;
};

}  // namespace

std::optional<std::string> why_not_control_flow(const Graph& graph, const Node& node) {
  if (node.op == cond_op()) return Checker(graph, node).cond();
  if (node.op == while_loop_op()) return Checker(graph, node).while_loop();
  return std::nullopt;
}

std::optional<std::string> why_not_body(const Graph& graph) {
  const AliasClasses aliases(graph);
  std::vector<ValueId> written;
  for (size_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node(NodeId(n));
    if (node.erased) continue;
    const OpInfo& info = op_info(node.op);
    if (info.has(kOpRandom)) return info.name + " draws random numbers";
    if (info.has(kOpSideEffect) && info.name != "framejit::constant") return info.name + " has effects";
    written_values(graph, node, written);
    for (ValueId id : written)
      if (aliases.is_input(id) || aliases.is_constant(id)) return info.name + " writes a tensor from outside";
  }
  std::vector<uint32_t> seen;
  for (ValueId id : graph.outputs()) {
    if (!id.valid()) continue;
    if (aliases.is_input(id) || aliases.is_constant(id))
      return "an output is, or shares the memory of, a tensor from outside";
    if (std::find(seen.begin(), seen.end(), aliases.of(id)) != seen.end()) return "two outputs share their memory";
    seen.push_back(aliases.of(id));
  }
  return std::nullopt;
}

}  // namespace framejit::graph
