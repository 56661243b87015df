#include "graph/verify.h"

#include <algorithm>

#include "base/check.h"
#include "graph/control_flow.h"
#include "graph/print.h"

namespace framejit::graph {

using Kind = Operand::Kind;

namespace {

class Verifier {
 public:
  Verifier(const Graph& graph, const VerifyOptions& options)
      : graph_(graph), options_(options), defined_(graph.value_count(), false) {}

  std::optional<std::string> run() {
    for (size_t i = 0; i < graph_.inputs().size() && !error_; ++i) check_input(i);
    for (size_t i = 0; i < graph_.node_count() && !error_; ++i)
      if (const Node& node = graph_.node(NodeId(i)); !node.erased) check_node(NodeId(i), node);
    for (ValueId id : graph_.outputs())
      if (!error_ && id.valid() && !is_defined(id))
        error_ = fmt::format("output %{}: expected a defined value", id.value);
    return error_;
  }

 private:
  bool is_defined(ValueId id) const { return id.index() < defined_.size() && defined_[id.index()]; }

  void check_input(size_t index) {
    ValueId id = graph_.inputs()[index];
    if (id.index() >= graph_.value_count()) {
      error_ = fmt::format("input {}: expected a value below {}, got %{}", index, graph_.value_count(), id.value);
      return;
    }
    const Value& value = graph_.value(id);
    if (!value.is_input() || value.index != index)
      error_ = fmt::format("input {}: expected %{} to be defined as input {}, got node {} result {}", index, id.value,
                           index, value.definition.value, value.index);
    defined_[id.index()] = true;
  }

  void check_node(NodeId id, const Node& node) {
    const OpInfo& info = op_info(node.op);
    for (size_t i = 0; i < node.operand_count && !error_; ++i)
      for_each_value(node.arg(i), [&](ValueId used) {
        if (!error_ && !is_defined(used))
          fail(node, fmt::format("operand {}: expected a value defined before, got %{}", i, used.value));
      });
    if (!error_ && !info.schema.empty()) check_schema(node, info);
    for (uint32_t r = 0; r < node.result_count && !error_; ++r) check_result(id, node, r);
    if (!error_ && options_.require_locations && !node.location.valid()) fail(node, "expected a location, got none");
    if (!error_ && options_.check_metas) check_metas(node);
    if (!error_) check_bodies(node);
  }

  void check_bodies(const Node& node) {
    for (const Operand& operand : node.args()) {
      if (!operand.is(Kind::kSubgraph) || error_) continue;
      const SubgraphId id = operand.as_subgraph();
      if (id.index() >= graph_.subgraph_count())
        return fail(node, fmt::format("expected a graph below {}, got {}", graph_.subgraph_count(), id.value));
      VerifyOptions options = options_;
      options.environment = environment_of(node);
      if (auto inner = Verifier(*graph_.subgraph(id), options).run())
        error_ = fmt::format("in @{}: {}", graph_.subgraph(id)->name(), *inner);
    }
    if (error_) return;
    if (auto wrong = why_not_control_flow(graph_, node)) fail(node, *wrong);
  }

  void check_result(NodeId id, const Node& node, uint32_t r) {
    ValueId result = node.result(r);
    if (result.index() >= graph_.value_count())
      return fail(node,
                  fmt::format("result {}: expected a value below {}, got %{}", r, graph_.value_count(), result.value));
    const Value& value = graph_.value(result);
    if (value.definition != id || value.index != r)
      return fail(node, fmt::format("result {}: expected %{} to be defined here, got node {} result {}", r,
                                    result.value, value.definition.value, value.index));
    if (defined_[result.index()])
      return fail(node, fmt::format("result {}: expected one definition of %{}", r, result.value));
    int16_t alias = value.result.alias_operand;
    if (value.result.alias != AliasKind::kFresh && (alias < 0 || static_cast<uint32_t>(alias) >= node.operand_count))
      return fail(node,
                  fmt::format("result {}: expected an alias of operand 0 to {}, got {}", r, node.operand_count, alias));
    defined_[result.index()] = true;
  }

  void check_schema(const Node& node, const OpInfo& info) {
    const auto& args = info.parsed.args;
    if (args.size() != node.operand_count)
      return fail(node, fmt::format("expected {} operands, got {}", args.size(), node.operand_count));
    for (size_t i = 0; i < args.size(); ++i)
      if (!operand_fits(args[i], node.arg(i).kind()))
        return fail(node, fmt::format("operand {} ({}): expected {}, got a {}", i, args[i].name, args[i].type,
                                      kind_name(node.arg(i).kind())));
    bool list = info.parsed.returns.size() == 1 && info.parsed.returns[0].type.find('[') != std::string::npos;
    if (!list && info.parsed.returns.size() != node.result_count)
      fail(node, fmt::format("expected {} results, got {}", info.parsed.returns.size(), node.result_count));
  }

  InferEnvironment environment_of(const Node& node) const {
    InferEnvironment environment = options_.environment;
    if (node.state.default_dtype) environment.default_dtype = *node.state.default_dtype;
    return environment;
  }

  void check_metas(const Node& node) {
    switch (infer_meta(node.op, node.args(), MetaLookup(graph_), inferred_, environment_of(node))) {
      case InferStatus::kNoRule:
        return check_aliases(node);
      case InferStatus::kError:
        return fail(node, "expected operands that inference accepts, got an inference error");
      case InferStatus::kOk:
        break;
    }
    if (inferred_.size() != node.result_count)
      return fail(node, fmt::format("expected {} results by inference, got {}", inferred_.size(), node.result_count));
    for (uint32_t r = 0; r < node.result_count && !error_; ++r) compare(node, r, inferred_[r]);
  }

  void compare(const Node& node, uint32_t r, ResultMeta& expected) {
    const ResultMeta& got = graph_.value(node.result(r)).result;
    expected.meta.requires_grad = got.meta.requires_grad;
    if (got.kind != expected.kind) return fail(node, fmt::format("result {}: expected another kind of result", r));
    if (got.meta != expected.meta)
      return fail(node,
                  fmt::format("result {}: expected {}, got {}", r, to_string(expected.meta), to_string(got.meta)));
    if (got.alias == AliasKind::kFresh && op_name(node.op) == "aten::lift_fresh")
      return;  // of a constant: a copy of it
    if (got.alias != expected.alias || got.alias_operand != expected.alias_operand)
      fail(node, fmt::format("result {}: expected {}, got {}", r, alias_text(expected), alias_text(got)));
  }

  // By the schema: where a result says that it is an operand, the executor takes its word.
  void check_aliases(const Node& node) {
    const OpInfo& info = op_info(node.op);
    if (info.schema.empty()) return;
    for (uint32_t r = 0; r < node.result_count && !error_; ++r) {
      const ResultMeta& got = graph_.value(node.result(r)).result;
      if (got.alias == AliasKind::kFresh) continue;
      const size_t returned = std::min<size_t>(r, info.parsed.returns.size() - 1);
      ResultMeta expected;
      expected.alias_operand = static_cast<int16_t>(info.aliased_arg(returned));
      if (expected.alias_operand >= 0)
        expected.alias = info.parsed.returns[returned].written ? AliasKind::kSame : AliasKind::kView;
      if (got.alias != expected.alias || got.alias_operand != expected.alias_operand)
        fail(node, fmt::format("result {}: expected {}, got {}", r, alias_text(expected), alias_text(got)));
    }
  }

  static std::string alias_text(const ResultMeta& result) {
    if (result.alias == AliasKind::kFresh) return "own storage";
    return fmt::format("{} operand {}", result.alias == AliasKind::kView ? "a view of" : "the same as",
                       result.alias_operand);
  }

  void fail(const Node& node, const std::string& what) {
    std::string text = op_text(node.op) + "(";
    for (uint32_t i = 0; i < node.operand_count; ++i) text += (i ? ", " : "") + to_text(node.arg(i));
    error_ = fmt::format("{}): {}", text, what);
    if (node.location.valid()) {
      const Location& where = graph_.location(node.location);
      *error_ += fmt::format(" ({}:{})", where.file, where.line);
    }
  }

  const Graph& graph_;
  VerifyOptions options_;
  std::vector<bool> defined_;
  InferOutput inferred_;
  std::optional<std::string> error_;
};

}  // namespace

bool operand_fits(const SchemaArg& arg, Kind kind) {
  std::string_view type = arg.type;
  bool optional = !type.empty() && type.back() == '?';
  if (optional) type.remove_suffix(1);
  if (kind == Kind::kNone) return optional || type.find('?') != std::string_view::npos;
  bool scalar = kind == Kind::kInt || kind == Kind::kFloat || kind == Kind::kBool || kind == Kind::kComplex;
  // Sizes and strides may be results of other nodes.
  bool integer = kind == Kind::kInt || kind == Kind::kValue;
  if (type == "Tensor") return kind == Kind::kValue || scalar || kind == Kind::kConst;
  if (arg.is_tensor_list()) return kind == Kind::kValues || kind == Kind::kNone;
  if (type == "int" || type == "SymInt") return integer || kind == Kind::kBool;
  if (type == "float" || type == "SymFloat") return kind == Kind::kFloat || integer;
  if (type == "bool" || type == "SymBool") return kind == Kind::kBool || kind == Kind::kValue;
  if (type == "Scalar" || type == "number") return scalar || kind == Kind::kValue;
  if (type == "str") return kind == Kind::kString;
  if (type == "ScalarType") return kind == Kind::kDType;
  if (type == "Layout") return kind == Kind::kLayout;
  if (type == "Device") return kind == Kind::kDevice;
  if (type == "MemoryFormat") return kind == Kind::kMemoryFormat;
  if (type == "Generator") return kind == Kind::kConst;
  if (type == "Graph") return kind == Kind::kSubgraph;
  if (type.substr(0, 4) == "int[" || type.substr(0, 7) == "SymInt[") return kind == Kind::kInts || integer;
  if (type.substr(0, 6) == "float[") return kind == Kind::kFloats || kind == Kind::kFloat;
  if (type.substr(0, 5) == "bool[") return kind == Kind::kBools || kind == Kind::kBool;
  return true;
}

std::optional<std::string> verify(const Graph& graph, const VerifyOptions& options) {
  return Verifier(graph, options).run();
}

}  // namespace framejit::graph
