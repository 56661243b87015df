#include "graph/linear.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace framejit::graph {

namespace {

// Which operands must be linear for the results to be; the others must not depend on the values at all. Zero is linear.
enum class Rule : uint8_t {
  kFirst,           // the first
  kEither,          // one of the first two, where both are tensors or one is a number
  kBoth,            // the first two, and both are tensors
  kList,            // each of the first, which is a list
  kBehindFirst,     // the second and the third, and both are tensors
  kFirstAndSource,  // the first and the last tensor
  kFirstZero,       // the first, with the number zero where the operator takes one
  kZero,            // none: the result is zero
};

struct Row {
  std::string_view name;
  Rule rule;
};

// By the name without namespace, overload and the mark of operators in place.
constexpr Row kRows[] = {
    {"neg", Rule::kFirst},
    {"clone", Rule::kFirst},
    {"contiguous", Rule::kFirst},
    {"_to_copy", Rule::kFirst},
    {"_unsafe_view", Rule::kFirst},
    {"sum", Rule::kFirst},
    {"mean", Rule::kFirst},
    {"cumsum", Rule::kFirst},
    {"div", Rule::kFirst},
    {"index_select", Rule::kFirst},
    {"gather", Rule::kFirst},
    {"index", Rule::kFirst},
    {"flip", Rule::kFirst},
    {"roll", Rule::kFirst},
    {"repeat", Rule::kFirst},
    {"tril", Rule::kFirst},
    {"triu", Rule::kFirst},
    {"mul", Rule::kEither},
    {"matmul", Rule::kEither},
    {"mm", Rule::kEither},
    {"bmm", Rule::kEither},
    {"mv", Rule::kEither},
    {"dot", Rule::kEither},
    {"add", Rule::kBoth},
    {"sub", Rule::kBoth},
    {"cat", Rule::kList},
    {"stack", Rule::kList},
    {"where", Rule::kBehindFirst},
    {"copy", Rule::kFirstAndSource},
    {"index_add", Rule::kFirstAndSource},
    {"scatter_add", Rule::kFirstAndSource},
    {"index_put", Rule::kFirstAndSource},
    {"slice_scatter", Rule::kFirstAndSource},
    {"select_scatter", Rule::kFirstAndSource},
    {"masked_fill", Rule::kFirstZero},
    {"constant_pad_nd", Rule::kFirstZero},
    {"zeros", Rule::kZero},
    {"zeros_like", Rule::kZero},
    {"new_zeros", Rule::kZero},
    {"zero", Rule::kZero},
};

class Analysis {
 public:
  Analysis(const Graph& graph, std::span<const ValueId> values) : graph_(graph), linear_(graph.value_count()) {
    for (ValueId value : values) linear_[value.index()] = true;
  }

  bool holds(const Node& node) {
    const std::string_view full = op_name(node.op);
    constexpr std::string_view kNamespace = "aten::";
    const bool aten = full.starts_with(kNamespace);
    std::string_view name = full.substr(aten ? kNamespace.size() : 0);
    name = name.substr(0, name.find('.'));
    const bool in_place = name.size() > 1 && name.back() == '_' && name[name.size() - 2] != '_';
    if (in_place) name.remove_suffix(1);
    const Row* row =
        std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& each) { return each.name == name; });
    const bool known = aten && row != std::end(kRows);
    const bool is_zero = known && row->rule == Rule::kZero;
    if (!depends(node)) {
      if (is_zero && !in_place) mark(node);
      return true;
    }
    // What is written has other names, which the mark does not reach.
    if (in_place && !is_linear(node.arg(0))) return false;
    const bool holds = known ? satisfies(node, row->rule, full) : aten && (is_view(node) || is_gradient(node, name));
    const bool linear = holds && keeps_fractions(node);
    if (linear) mark(node);
    return linear;
  }

  bool is_linear(ValueId value) const { return linear_[value.index()]; }

 private:
  bool is_linear(const Operand& operand) const { return operand.is_value() && linear_[operand.as_value().index()]; }

  size_t count(const Operand& operand) const {
    size_t found = 0;
    for_each_value(operand, [&](ValueId id) { found += linear_[id.index()]; });
    return found;
  }

  bool depends(const Node& node) const {
    return std::any_of(node.args().begin(), node.args().end(), [&](const Operand& each) { return count(each) > 0; });
  }

  size_t linear_operands(const Node& node) const {
    size_t found = 0;
    for (const Operand& operand : node.args()) found += count(operand);
    return found;
  }

  // Neither whole numbers, nor the bits of others.
  bool keeps_fractions(const Node& node) const {
    for (size_t i = 0; i < node.result_count; ++i) {
      const TensorMeta& meta = graph_.meta(node.result(i));
      if (meta.defined() && !is_floating(meta.dtype) && !is_complex(meta.dtype)) return false;
    }
    return op_name(node.op) != "aten::view.dtype";
  }

  bool only_first(const Node& node) const { return is_linear(node.arg(0)) && linear_operands(node) == 1; }

  bool is_view(const Node& node) const {
    for (size_t i = 0; i < node.result_count; ++i)
      if (graph_.value(node.result(i)).result.alias != AliasKind::kView) return false;
    return only_first(node);
  }

  // LibTorch's own formulas are linear in the gradient, which they take first.
  bool is_gradient(const Node& node, std::string_view name) const {
    constexpr std::string_view kEnds[] = {"_backward", "_backward_data"};
    return only_first(node) && std::any_of(std::begin(kEnds), std::end(kEnds), [&](std::string_view end) {
             return name.size() > end.size() && name.substr(name.size() - end.size()) == end;
           });
  }

  bool satisfies(const Node& node, Rule rule, std::string_view full) const {
    const size_t linear = linear_operands(node);
    switch (rule) {
      case Rule::kFirst:
        return only_first(node) && !full.ends_with("_mode");  // of div: it rounds
      case Rule::kEither:
        return linear == 1 && (is_linear(node.arg(0)) || is_linear(node.arg(1)));
      case Rule::kBoth:
        return is_linear(node.arg(0)) && is_linear(node.arg(1));
      case Rule::kList:
        return node.arg(0).is(Operand::Kind::kValues) && linear == node.arg(0).as_values().size();
      case Rule::kBehindFirst:
        return node.operand_count == 3 && linear == 2 && is_linear(node.arg(1)) && is_linear(node.arg(2));
      case Rule::kFirstAndSource: {
        size_t last = node.operand_count;
        while (last > 1 && !node.arg(last - 1).is_value()) --last;
        return linear == 2 && is_linear(node.arg(0)) && last > 1 && is_linear(node.arg(last - 1));
      }
      case Rule::kFirstZero:
        return only_first(node) && full.find(".Tensor") == std::string_view::npos && has_only_zero(node);
      case Rule::kZero:
        return true;
    }
    return false;
  }

  // The number that such an operator takes is its last operand.
  static bool has_only_zero(const Node& node) {
    const Operand& number = node.arg(node.operand_count - 1);
    if (number.is(Operand::Kind::kInt)) return number.as_int() == 0;
    return number.is(Operand::Kind::kFloat) && number.as_float() == 0.0;
  }

  void mark(const Node& node) {
    for (size_t i = 0; i < node.result_count; ++i) linear_[node.result(i).index()] = true;
  }

  const Graph& graph_;
  std::vector<bool> linear_;
};

}  // namespace

std::string first_not_linear(const Graph& graph, size_t first_node, std::span<const ValueId> values,
                             std::span<const ValueId> results) {
  Analysis analysis(graph, values);
  for (size_t n = first_node; n < graph.node_count(); ++n) {
    const Node& node = graph.node(NodeId(n));
    if (!node.erased && !analysis.holds(node)) return std::string(op_name(node.op));
  }
  for (ValueId result : results)
    if (result.valid() && !analysis.is_linear(result)) return "a constant";
  return {};
}

}  // namespace framejit::graph
