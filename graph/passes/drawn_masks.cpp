#include "graph/passes/drawn_masks.h"

#include <cmath>
#include <optional>

#include "graph/alias.h"
#include "graph/generated/op_ids.h"

namespace framejit::graph {
namespace {

// What it makes of a one. Of a zero it makes a zero.
float quotient_of(const Node& dividing) { return 1.0f / static_cast<float>(dividing.arg(1).as_float()); }

bool is_plain(const Node& node) { return !node.erased && node.state.empty() && node.recompute == 0; }

// The nodes that name a tensor: the one that makes it, and those that write it.
class Masks {
 public:
  Masks(const Graph& graph, std::span<const ValueId> seen)
      : graph_(graph), aliases_(graph), named_by_(aliases_.size()), is_seen_(aliases_.size()) {
    for (uint32_t n = 0; n < graph.node_count(); ++n) {
      const Node& node = graph.node(NodeId(n));
      if (node.erased) continue;
      for (uint32_t i = 0; i < node.result_count; ++i) named_by_[aliases_.of(node.result(i))].push_back(NodeId(n));
      written_values(graph, node, written_);
      for (ValueId id : written_) is_written_otherwise(aliases_.of(id), NodeId(n));
    }
    for (ValueId id : seen)
      if (id.valid()) is_seen_[aliases_.of(id)] = true;
  }

  // Which the first node makes.
  std::optional<DrawnMask> mask(NodeId making, int64_t small) const {
    const Node& node = graph_.node(making);
    if (!is_plain(node) || node.op != ops::k_empty_like) return std::nullopt;
    const TensorMeta& meta = graph_.meta(node.result());
    const uint32_t of = aliases_.of(node.result());
    const std::vector<NodeId>& names = named_by_[of];
    const bool is_known = meta.dtype == DType::kF32 && meta.device.is_cpu() && meta.layout == Layout::kStrided &&
                          meta.is_non_overlapping_and_dense() && meta.numel() * itemsize(meta.dtype) > small;
    if (!is_known || is_seen_[of] || names.size() != 3) return std::nullopt;
    if (!is_drawn(graph_.node(names[1])) || !is_divided(graph_.node(names[2])) || is_read_before(of, names))
      return std::nullopt;
    return DrawnMask{node.result(), making, names[1], names[2]};
  }

 private:
  // A write that gives no name to what it writes: by an operator that returns nothing, or another tensor.
  void is_written_otherwise(uint32_t of, NodeId by) {
    if (named_by_[of].empty() || named_by_[of].back() != by) is_seen_[of] = true;
  }

  static bool is_drawn(const Node& node) {
    return is_plain(node) && node.op == ops::k_bernoulli__float && node.arg(2).is_none();
  }
  static bool is_divided(const Node& node) {
    return is_plain(node) && node.op == ops::k_div__Scalar && node.arg(1).is(Operand::Kind::kFloat) &&
           std::isfinite(quotient_of(node)) && quotient_of(node) > 0;
  }

  // Before it is what it stays.
  bool is_read_before(uint32_t of, const std::vector<NodeId>& names) const {
    bool reads = false;
    for (uint32_t n = names[0].value + 1; n < names[2].value; ++n) {
      const Node& node = graph_.node(NodeId(n));
      if (node.erased || NodeId(n) == names[1]) continue;
      for (const Operand& operand : node.args())
        for_each_value(operand, [&](ValueId id) { reads |= aliases_.of(id) == of; });
    }
    return reads;
  }

  const Graph& graph_;
  const AliasClasses aliases_;
  std::vector<std::vector<NodeId>> named_by_;  // by alias class
  std::vector<bool> is_seen_;                  // by alias class
  std::vector<ValueId> written_;
};

void draw_as_booleans(Graph& graph, const DrawnMask& mask) {
  const ResultMeta quotients{.meta = graph.meta(mask.value)};
  ResultMeta booleans = quotients;
  booleans.meta.dtype = DType::kBool;
  const auto with = [&](NodeId id, size_t at, Operand operand) {
    std::vector<Operand> operands(graph.node(id).args().begin(), graph.node(id).args().end());
    operands[at] = operand;
    return operands;
  };
  graph.replace_uses(graph.node(mask.drawing).result(), mask.value);
  graph.replace_uses(graph.node(mask.dividing).result(), mask.value);
  const Operand made = Operand::value(
      graph.redefine(mask.making, ops::k_empty_like, with(mask.making, 1, Operand::dtype(DType::kBool)), {}, booleans));
  booleans.alias = AliasKind::kSame;
  booleans.alias_operand = 0;
  graph.redefine(mask.drawing, ops::k_bernoulli__float, with(mask.drawing, 0, made), {}, booleans);
  const Operand product[] = {made, Operand::real(quotient_of(graph.node(mask.dividing)))};
  graph.redefine(mask.dividing, ops::k_mul_Scalar, product, mask.value, quotients);
}

}  // namespace

std::vector<DrawnMask> drawn_masks(const Graph& graph, std::span<const ValueId> seen, int64_t small) {
  std::vector<NodeId> making;
  for (uint32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node(NodeId(n));
    if (node.erased || node.op != ops::k_bernoulli__float) continue;
    const NodeId id = graph.value(node.arg(0).as_value()).definition;
    if (id.valid()) making.push_back(id);
  }
  std::vector<DrawnMask> found;
  if (making.empty()) return found;
  const Masks masks(graph, seen);
  for (NodeId id : making)
    if (const std::optional<DrawnMask> mask = masks.mask(id, small)) found.push_back(*mask);
  return found;
}

void draw_as_booleans(Graph& graph, std::span<const DrawnMask> masks) {
  for (const DrawnMask& mask : masks) draw_as_booleans(graph, mask);
}

}  // namespace framejit::graph
