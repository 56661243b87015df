#include "graph/builder.h"

#include "base/check.h"
#include "graph/print.h"
#include "graph/verify.h"

namespace framejit::graph {
namespace {

// The call as the graph would print it: "aten.mm(%0, %1)".
std::string call_text(const OpInfo& info, std::span<const Operand> operands) {
  std::string text = op_text(info.id) + "(";
  for (size_t i = 0; i < operands.size(); ++i) text += (i ? ", " : "") + to_text(operands[i]);
  return text + ")";
}

}  // namespace

Operand Scalar::operand() const {
  switch (kind_) {
    case Operand::Kind::kBool:
      return Operand::boolean(integer_ != 0);
    case Operand::Kind::kInt:
      return Operand::integer(integer_);
    case Operand::Kind::kFloat:
      return Operand::real(parts_[0]);
    default:
      return Operand::complex(parts_);
  }
}

Operand operand_of(const TensorArg& v) { return v.operand(); }
Operand operand_of(const std::optional<TensorArg>& v) { return v ? v->operand() : Operand::none(); }
Operand operand_of(const Scalar& v) { return v.operand(); }
Operand operand_of(const std::optional<Scalar>& v) { return v ? v->operand() : Operand::none(); }
Operand operand_of(const Ints& v) { return v.operand(); }
Operand operand_of(const std::optional<Ints>& v) { return v ? v->operand() : Operand::none(); }
Operand operand_of(const Values& v) { return v.operand(); }

ValueId Builder::input(const Ints& sizes, DType dtype, Device device) {
  return input(TensorMeta::fresh(sizes.operand().as_ints(), dtype, device));
}

// What is wrong before inference is asked, or nothing.
std::optional<std::string> Builder::refusal(const OpInfo& info, std::span<const Operand> operands) const {
  const std::vector<SchemaArg>& args = info.parsed.args;
  if (operands.size() != args.size()) return fmt::format("expected {} operands, got {}", args.size(), operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    std::optional<ValueId> unknown;
    auto look = [&](ValueId id) {
      if (id.index() >= graph_.value_count()) unknown = id;
    };
    for_each_value(operands[i], look);
    if (unknown)
      return fmt::format("operand {} ({}): expected a value of the graph, which has {}, got {}", i, args[i].name,
                         graph_.value_count(), unknown->valid() ? fmt::format("%{}", unknown->value) : "an invalid id");
    if (!operand_fits(args[i], operands[i].kind()))
      return fmt::format("operand {} ({}): expected {}, got a {}", i, args[i].name, args[i].type,
                         kind_name(operands[i].kind()));
  }
  if (!has_infer_rule(info.id)) return "expected an operator with an inference rule, got one without";
  return std::nullopt;
}

// The types of the tensors among the operands.
std::string Builder::types_of(std::span<const Operand> operands) const {
  std::string text;
  for (const Operand& operand : operands)
    for_each_value(operand, [&](ValueId id) {
      text += fmt::format("{}%{}: {}", text.empty() ? "" : ", ", id.value, to_string(graph_.meta(id)));
    });
  return text.empty() ? "no tensor" : text;
}

Result<NodeId, BuildError> Builder::add(OpId op, std::span<const Operand> operands) {
  const OpInfo& info = op_info(op);
  auto refused = [&](const std::string& what) {
    return Err{BuildError{fmt::format("{}: {}", call_text(info, operands), what)}};
  };
  if (std::optional<std::string> what = refusal(info, operands)) return refused(*what);
  switch (infer_meta(op, operands, MetaLookup(graph_), results_, environment_)) {
    case InferStatus::kOk:
      return graph_.add_node(op, operands, results_, location_);
    case InferStatus::kNoRule:
      return refused(fmt::format(
          "expected arguments that its inference rule knows, got {}; add it with Graph::add_node", types_of(operands)));
    default:
      return refused(fmt::format("expected arguments that {} takes, got {}", info.schema, types_of(operands)));
  }
}

Result<ValueId, BuildError> Builder::one(OpId op, std::span<const Operand> operands) {
  Result<NodeId, BuildError> node = add(op, operands);
  if (!node) return Err{node.take_error()};
  return graph_.node(*node).result();
}

Result<std::vector<ValueId>, BuildError> Builder::list(OpId op, std::span<const Operand> operands) {
  Result<NodeId, BuildError> node = add(op, operands);
  if (!node) return Err{node.take_error()};
  const Node& added = graph_.node(*node);
  std::vector<ValueId> results(added.result_count);
  for (size_t i = 0; i < results.size(); ++i) results[i] = added.result(i);
  return results;
}

}  // namespace framejit::graph
