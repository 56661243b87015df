#include "graph/passes/cse.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "graph/alias.h"

namespace framejit::graph {
namespace {

class Merger {
 public:
  Merger(Graph& graph, std::span<const ValueId> seen)
      : graph_(graph), aliases_(graph), written_(aliases_.size()), seen_(aliases_.size()) {
    for (ValueId id : seen)
      if (id.valid()) seen_[aliases_.of(id)] = true;
    std::vector<ValueId> written;
    for (uint32_t n = 0; n < graph.node_count(); ++n) {
      if (graph.node(NodeId(n)).erased) continue;
      written_values(graph, graph.node(NodeId(n)), written);
      for (ValueId id : written) {
        written_[aliases_.of(id)] = true;
        writes_outside_ = writes_outside_ || is_outside(id);
      }
    }
  }

  size_t run() {
    size_t merged = 0;
    for (uint32_t n = 0; n < graph_.node_count(); ++n) {
      const Node& node = graph_.node(NodeId(n));
      if (node.erased || !may_be_first(node)) continue;
      std::vector<NodeId>& known = known_[key_of(node)];
      const auto same = std::find_if(known.begin(), known.end(), [&](NodeId id) { return are_equal(id, node); });
      if (same == known.end()) {
        known.push_back(NodeId(n));
      } else if (may_go(node)) {
        for (uint32_t i = 0; i < node.result_count; ++i)
          graph_.replace_uses(node.result(i), graph_.node(*same).result(i));
        graph_.erase(NodeId(n));
        ++merged;
      }
    }
    return merged;
  }

 private:
  bool is_outside(ValueId id) const { return aliases_.is_input(id) || aliases_.is_constant(id); }
  bool is_written(ValueId id) const { return written_[aliases_.of(id)]; }

  // Two inputs may be over the same memory.
  bool may_change(ValueId id) const { return is_written(id) || (writes_outside_ && is_outside(id)); }

  bool may_be_first(const Node& node) const {
    constexpr uint32_t kNever = kOpMutates | kOpInPlace | kOpMetaInPlace | kOpRandom | kOpDataDependent |
                                kOpSideEffect | kOpUninitialized | kOpWritesStatistics | kOpView;
    const OpInfo& info = op_info(node.op);
    if (info.schema.empty() || (info.flags & kNever) || !info.name.starts_with("aten::") || node.recompute != 0)
      return false;
    for (uint32_t i = 0; i < node.result_count; ++i) {
      const ResultMeta& result = graph_.value(node.result(i)).result;
      if (result.kind != ResultKind::kTensor || result.alias != AliasKind::kFresh || is_written(node.result(i)))
        return false;
    }
    bool same = true;
    for (const Operand& operand : node.args()) {
      same = same && !operand.is(Operand::Kind::kSubgraph);
      for_each_value(operand, [&](ValueId id) { same = same && !may_change(id); });
    }
    return same;
  }

  bool may_go(const Node& node) const {
    for (uint32_t i = 0; i < node.result_count; ++i)
      if (seen_[aliases_.of(node.result(i))] || aliases_.escapes(node.result(i))) return false;
    return true;
  }

  static uint64_t key_of(const Node& node) {
    uint64_t key = node.op.value;
    for (const Operand& operand : node.args())
      for_each_value(operand, [&](ValueId id) { key = key * 0x9e3779b97f4a7c15u + id.value + 1; });
    return key;
  }

  bool are_equal(NodeId first, const Node& node) const {
    const Node& other = graph_.node(first);
    if (other.op != node.op || other.state != node.state || other.result_count != node.result_count) return false;
    for (uint32_t i = 0; i < node.result_count; ++i)
      if (graph_.meta(other.result(i)) != graph_.meta(node.result(i))) return false;
    return std::equal(node.args().begin(), node.args().end(), other.args().begin(), other.args().end());
  }

  Graph& graph_;
  const AliasClasses aliases_;
  std::vector<bool> written_, seen_;  // by alias class
  bool writes_outside_ = false;
  std::unordered_map<uint64_t, std::vector<NodeId>> known_;
};

}  // namespace

size_t merge_common_subexpressions(Graph& graph, std::span<const ValueId> seen) { return Merger(graph, seen).run(); }

}  // namespace framejit::graph
