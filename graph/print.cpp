#include "graph/print.h"

#include <cmath>

#include "base/check.h"

namespace framejit::graph {
namespace {

std::string float_text(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", v);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string_view memory_format_name(MemoryFormat format) {
  switch (format) {
    case MemoryFormat::kContiguous:
      return "contiguous_format";
    case MemoryFormat::kPreserve:
      return "preserve_format";
    case MemoryFormat::kChannelsLast:
      return "channels_last";
    case MemoryFormat::kChannelsLast3d:
      return "channels_last_3d";
  }
  return "?";
}

std::string layout_text(Layout layout) {
  return layout == Layout::kStrided ? "strided" : fmt::format("layout<{}>", static_cast<int>(layout));
}

template <class List, class F>
std::string list_text(std::string_view empty, const List& list, F&& text_of) {
  if (list.empty()) return std::string(empty);
  std::string text = "[";
  for (size_t i = 0; i < list.size(); ++i) text += (i ? ", " : "") + text_of(list[i]);
  return text + "]";
}

class Printer {
 public:
  Printer(const Graph& graph, const PrintOptions& options) : graph_(graph), options_(options) {
    if (options_.renumber) numbers_ = text_numbers(graph_);
  }

  std::string run() {
    std::string text = fmt::format("graph @{} (", graph_.name());
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      ValueId id = graph_.inputs()[i];
      text += fmt::format("{}{}: {}", i ? ", " : "", value_text(id), to_string(graph_.meta(id)));
    }
    text += ") {\n";
    for (size_t i = 0; i < graph_.subgraph_count(); ++i) text += body_text(SubgraphId(i));
    NodeState state;
    for (size_t i = 0; i < graph_.node_count(); ++i) {
      const Node& node = graph_.node(NodeId(i));
      if (node.erased) continue;
      if (node.state != state) text += state_text(state = node.state);
      text += node_text(node);
    }
    text += "  return";
    for (size_t i = 0; i < graph_.outputs().size(); ++i) text += (i ? ", " : " ") + value_text(graph_.outputs()[i]);
    return text + "\n}\n";
  }

  std::string operand_text(const Operand& operand) const;

 private:
  // Bodies that no node names are left over from what was erased.
  bool is_named(SubgraphId id) const {
    for (size_t i = 0; i < graph_.node_count(); ++i) {
      const Node& node = graph_.node(NodeId(i));
      for (const Operand& operand : node.args())
        if (!node.erased && operand.is(Operand::Kind::kSubgraph) && operand.as_subgraph() == id) return true;
    }
    return false;
  }

  std::string body_text(SubgraphId id) const {
    if (!is_named(id)) return {};
    std::string lines = to_text(*graph_.subgraph(id), options_), text;
    for (size_t begin = 0, end; begin < lines.size(); begin = end + 1) {
      end = lines.find('\n', begin);
      text += "  " + lines.substr(begin, end - begin) + "\n";
    }
    return text;
  }

  // Of the nodes below, up to the next such line.
  static std::string state_text(const NodeState& state) {
    std::string text;
    if (state.inference) text = fmt::format("inference={}", *state.inference);
    if (state.default_dtype)
      text += fmt::format("{}default_dtype={}", text.empty() ? "" : ", ", dtype_name(*state.default_dtype));
    return "  under(" + text + ")\n";
  }

  std::string value_text(ValueId id) const {
    if (!id.valid()) return "none";
    if (id.index() >= graph_.value_count()) return fmt::format("%invalid{}", id.value);
    uint32_t number = options_.renumber ? numbers_[id.index()] : id.value;
    return number == ValueId::kInvalid ? fmt::format("%dead{}", id.value) : fmt::format("%{}", number);
  }

  std::string result_text(const Node& node, const ResultMeta& result) const {
    switch (result.kind) {
      case ResultKind::kInt:
        return "int";
      case ResultKind::kFloat:
        return "float";
      case ResultKind::kBool:
        return "bool";
      case ResultKind::kTensor:
        break;
    }
    std::string text = to_string(result.meta);
    if (result.alias == AliasKind::kFresh || result.alias_operand < 0) return text;
    text += result.alias == AliasKind::kView ? " view " : " same ";
    if (static_cast<uint32_t>(result.alias_operand) >= node.operand_count) return text + "%invalid";
    const Operand& source = node.arg(static_cast<size_t>(result.alias_operand));
    if (source.is_value()) return text + value_text(source.as_value());
    if (source.is(Operand::Kind::kValues) && result.alias_element >= 0 &&
        static_cast<size_t>(result.alias_element) < source.size())
      return text + value_text(source.as_values()[static_cast<size_t>(result.alias_element)]);
    return text + "none";
  }

  std::string node_text(const Node& node) const {
    std::string text = "  ";
    for (uint32_t i = 0; i < node.result_count; ++i) text += (i ? ", " : "") + value_text(node.result(i));
    if (node.result_count) text += " = ";
    text += op_text(node.op) + "(";
    for (uint32_t i = 0; i < node.operand_count; ++i) text += (i ? ", " : "") + operand_text(node.arg(i));
    text += ")";
    for (uint32_t i = 0; i < node.result_count; ++i)
      text += (i ? ", " : " : ") + result_text(node, graph_.value(node.result(i)).result);
    if (node.recompute) text += fmt::format(" recompute {}", node.recompute);
    if (options_.locations && node.location.valid()) {
      const Location& where = graph_.location(node.location);
      text += fmt::format("  # {}:{}", where.file, where.line);
      if (!where.function.empty()) text += fmt::format(" in {}", where.function);
    }
    return text + "\n";
  }

  const Graph& graph_;
  PrintOptions options_;
  std::vector<uint32_t> numbers_;
};

// Everything but values, which need the graph's numbering.
std::string literal_text(const Operand& operand) {
  using Kind = Operand::Kind;
  switch (operand.kind()) {
    case Kind::kNone:
      return "none";
    case Kind::kInt:
      return fmt::format("{}", operand.as_int());
    case Kind::kFloat:
      return float_text(operand.as_float());
    case Kind::kBool:
      return operand.as_bool() ? "true" : "false";
    case Kind::kComplex:
      return fmt::format("complex({}, {})", float_text(operand.as_complex()[0]), float_text(operand.as_complex()[1]));
    case Kind::kString:
      return quoted(operand.as_string());
    case Kind::kInts:
      return list_text("[]", operand.as_ints(), [](int64_t v) { return fmt::format("{}", v); });
    case Kind::kFloats:
      return list_text("floats[]", operand.as_floats(), float_text);
    case Kind::kBools:
      return list_text("bools[]", operand.as_bools(), [](bool v) { return std::string(v ? "true" : "false"); });
    case Kind::kScalars:
      return "scalars" + list_text("[]", operand.as_scalars(), literal_text);
    case Kind::kDType:
      return std::string(dtype_name(operand.as_dtype()));
    case Kind::kLayout:
      return layout_text(operand.as_layout());
    case Kind::kDevice:
      return to_string(operand.as_device());
    case Kind::kMemoryFormat:
      return std::string(memory_format_name(operand.as_memory_format()));
    case Kind::kConst:
      return fmt::format("const<{}>", operand.as_const().value);
    case Kind::kSubgraph:
      return fmt::format("@{}", operand.as_subgraph().value);
    case Kind::kValue:
      return fmt::format("%{}", operand.as_value().value);
    case Kind::kValues:
      return list_text("values[]", operand.as_values(),
                       [](ValueId id) { return id.valid() ? fmt::format("%{}", id.value) : std::string("none"); });
  }
  return "?";
}

std::string Printer::operand_text(const Operand& operand) const {
  if (operand.is_value()) return value_text(operand.as_value());
  if (operand.is(Operand::Kind::kValues))
    return list_text("values[]", operand.as_values(), [this](ValueId id) { return value_text(id); });
  if (operand.is(Operand::Kind::kSubgraph) && operand.as_subgraph().index() < graph_.subgraph_count())
    return "@" + graph_.subgraph(operand.as_subgraph())->name();
  return literal_text(operand);
}

}  // namespace

std::string to_text(const Graph& graph, const PrintOptions& options) { return Printer(graph, options).run(); }
std::string to_text(const Operand& operand) { return literal_text(operand); }

std::vector<uint32_t> text_numbers(const Graph& graph) {
  std::vector<uint32_t> numbers(graph.value_count(), ValueId::kInvalid);
  uint32_t next = 0;
  for (ValueId id : graph.inputs()) numbers[id.index()] = next++;
  for (size_t i = 0; i < graph.node_count(); ++i) {
    const Node& node = graph.node(NodeId(i));
    if (node.erased) continue;
    for (uint32_t r = 0; r < node.result_count; ++r) numbers[node.result(r).index()] = next++;
  }
  return numbers;
}

std::string op_text(OpId op) {
  std::string text(op_name(op));
  if (size_t at = text.find("::"); at != std::string::npos) text.replace(at, 2, ".");
  return text;
}

}  // namespace framejit::graph
