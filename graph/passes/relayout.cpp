#include "graph/passes/relayout.h"

#include <algorithm>

#include "graph/expression.h"
#include "graph/generated/builders.h"
#include "graph/generated/op_ids.h"

namespace framejit::graph {
namespace {

// Beside elementwise operators: numbers do not depend on the layout, and inference tells the result's.
constexpr OpId kInAnyLayout[] = {
    ops::k_max_pool2d_with_indices, ops::k_avg_pool2d, ops::k__adaptive_avg_pool2d, ops::k_mean_dim,
    ops::k_upsample_nearest2d,      ops::k_cat,        ops::k_upsample_bilinear2d,  ops::k_native_batch_norm,
    ops::k_constant_pad_nd,
};

bool writes_elementwise(const Node& node) {
  const OpInfo& info = op_info(node.op);
  const Expression* expression = expression_of(node.op);
  return info.has(kOpInPlace) && !info.has(kOpMetaInPlace) && expression && !expression->reduces;
}

bool is_for_any_layout(const Node& node) {
  if (op_info(node.op).has(kOpPointwise) || writes_elementwise(node)) return true;
  return std::find(std::begin(kInAnyLayout), std::end(kInAnyLayout), node.op) != std::end(kInAnyLayout);
}

bool is_laid_out_alike(const TensorMeta& a, const TensorMeta& b) {
  return a.sizes == b.sizes && a.strides == b.strides && a.storage_offset == b.storage_offset;
}

}  // namespace

Relayout::Relayout(const Graph& from, Graph& to, const InferEnvironment& environment)
    : from_(from),
      to_(to),
      environment_(environment),
      aliases_(from),
      copy_(from, to, true),
      builder_(to, environment),
      fixed_(aliases_.size()),
      relaid_(from.value_count()) {
  find_fixed();
}

// What the caller can see; and what is written while views of it are about, for a view of a copy would not see that.
void Relayout::find_fixed() {
  std::vector<bool> viewed(aliases_.size()), written(aliases_.size());
  std::vector<ValueId> writes;
  for (size_t n = 0; n < from_.node_count(); ++n) {
    const Node& node = from_.node(NodeId(static_cast<uint32_t>(n)));
    if (node.erased) continue;
    for (size_t i = 0; i < node.result_count; ++i)
      if (from_.value(node.result(i)).result.alias == AliasKind::kView) viewed[aliases_.of(node.result(i))] = true;
    written_values(from_, node, writes);
    for (ValueId id : writes) {
      written[aliases_.of(id)] = true;
      if (!writes_elementwise(node)) fixed_[aliases_.of(id)] = true;
    }
  }
  for (size_t i = 0; i < from_.value_count(); ++i) {
    const ValueId id(static_cast<uint32_t>(i));
    const uint32_t of = aliases_.of(id);
    if (aliases_.escapes(id) || (viewed[of] && written[of])) fixed_[of] = true;
  }
}

ValueId Relayout::as_before(ValueId old) {
  if (!is_relaid(old)) return at(old);
  auto found = in_before_.find(old.value);
  if (found != in_before_.end()) return found->second;
  const MemoryFormat format = from_.meta(old).is_contiguous() ? MemoryFormat::kContiguous : MemoryFormat::kChannelsLast;
  Result<ValueId, BuildError> copy = ops::clone(builder_, at(old), format);
  if (!copy || !is_laid_out_alike(to_.meta(*copy), from_.meta(old))) return {};
  in_before_[old.value] = *copy;
  copied_ += from_.meta(old).numel();
  return *copy;
}

bool Relayout::finish(std::vector<ValueId>& values) {
  std::vector<ValueId> outputs;
  for (ValueId id : from_.outputs()) {
    outputs.push_back(id.valid() ? as_before(id) : ValueId());
    if (id.valid() && !outputs.back().valid()) return false;
  }
  to_.set_outputs(outputs);
  values.resize(from_.value_count());
  for (size_t i = 0; i < values.size(); ++i)
    if (const ValueId id(static_cast<uint32_t>(i)); has(id)) values[i] = at(id);
  return true;
}

bool Relayout::put(ValueId old, ValueId value) {
  copy_.map(old, value);
  if (is_laid_out_alike(to_.meta(value), from_.meta(old))) return true;
  relaid_[old.index()] = true;
  if (!fixed_[aliases_.of(old)]) return true;
  const ValueId before = as_before(old);
  if (!before.valid()) return false;
  relaid_[old.index()] = false;
  copy_.map(old, before);
  in_before_.erase(old.value);
  return true;
}

bool Relayout::reads_relaid(const Node& node) const {
  bool reads = false;
  for (const Operand& operand : node.args()) for_each_value(operand, [&](ValueId id) { reads |= is_relaid(id); });
  return reads;
}

bool Relayout::add(const Node& node) {
  builder_.set_location(location(node));
  if (!reads_relaid(node)) {
    copy_.add(node);
  } else if (!(is_for_any_layout(node) && add_in_new_layout(node)) && !add_in_old_layout(node)) {
    return false;
  }
  forget_copies(node);
  return true;
}

bool Relayout::add_in_new_layout(const Node& node) {
  std::vector<std::vector<ValueId>> lists;
  const std::vector<Operand> operands = copy_.operands_of(node, lists);
  const InferStatus status = infer_meta(node.op, operands, MetaLookup(to_), results_, environment_);
  if (status != InferStatus::kOk || results_.size() != node.result_count) return false;
  for (size_t i = 0; i < node.result_count; ++i) {
    const ResultMeta& before = from_.value(node.result(i)).result;
    const ResultMeta& now = results_[i];
    if (now.kind != before.kind || now.alias != before.alias || now.meta.dtype != before.meta.dtype ||
        now.meta.sizes != before.meta.sizes)
      return false;
    if (!is_laid_out_alike(now.meta, before.meta) && fixed_[aliases_.of(node.result(i))]) return false;
  }
  copy_.add(node, results_);
  for (size_t i = 0; i < node.result_count; ++i)
    relaid_[node.result(i).index()] = !is_laid_out_alike(results_[i].meta, from_.meta(node.result(i)));
  return true;
}

bool Relayout::add_in_old_layout(const Node& node) {
  std::vector<ValueId> writes;
  written_values(from_, node, writes);
  if (std::any_of(writes.begin(), writes.end(), [&](ValueId id) { return is_relaid(id); })) return false;
  std::unordered_map<uint32_t, ValueId> now;
  bool all = true;
  for (const Operand& operand : node.args())
    for_each_value(operand, [&](ValueId id) {
      if (!is_relaid(id)) return;
      const ValueId before = as_before(id);
      all &= before.valid();
      now[id.value] = at(id);
    });
  if (!all) return false;
  for (const auto& [old, value] : now) copy_.map(ValueId(old), in_before_.at(old));
  copy_.add(node);
  for (const auto& [old, value] : now) copy_.map(ValueId(old), value);
  return true;
}

void Relayout::forget_copies(const Node& node) {
  if (in_before_.empty()) return;
  std::vector<ValueId> writes;
  written_values(from_, node, writes);
  for (ValueId id : writes)
    std::erase_if(in_before_, [&](const auto& entry) { return aliases_.may_alias(ValueId(entry.first), id); });
}

}  // namespace framejit::graph
