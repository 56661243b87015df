#include "codegen/kernels/fuse.h"

#include <algorithm>

#include "graph/control_flow.h"
#include "graph/generated/op_ids.h"
#include "graph/op.h"

namespace framejit::codegen {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Operand;
using graph::ValueId;

namespace {

// Beyond this a kernel spills more than it saves, and takes long to compile.
constexpr size_t kMostNodes = 100;
constexpr size_t kMostBuffers = 24;

class Fusion {
 public:
  Fusion(const Graph& graph, std::span<const ValueId> keep, const std::vector<bool>& skip)
      : graph_(graph), skip_(skip), group_of_(graph.value_count(), kNone), read_outside_(graph.value_count()) {
    for (ValueId id : keep) read_outside_[undetached(graph, id).index()] = true;
    for (ValueId id : graph.outputs()) read_outside_[undetached(graph, id).index()] = true;
  }

  std::vector<FusedGroup> run() {
    for (size_t n = 0; n < graph_.node_count(); ++n) {
      const Node& node = graph_.node(NodeId(static_cast<uint32_t>(n)));
      if (node.erased || (!skip_.empty() && skip_[n]) || node.op == graph::ops::k_detach) continue;
      const FusedKind kind = fused_kind(graph_, node);
      if (kind == FusedKind::kNone) {
        pass(node);
      } else {
        place(NodeId(static_cast<uint32_t>(n)), kind);
      }
    }
    return finish();
  }

 private:
  static constexpr uint32_t kNone = 0xffffffffu;
  struct Open {
    std::vector<NodeId> nodes;
    const graph::TensorMeta* whole = nullptr;  // the layout that its kernel walks over
    bool rows = false;                         // it has nodes of whole rows
    size_t reads = 0;
    bool open = true;
  };

  // The layout that a node's kernel walks over.
  const graph::TensorMeta& whole_of(const Node& node, FusedKind kind) const {
    return graph_.meta(kind == FusedKind::kRows ? undetached(graph_, node.arg(0).as_value()) : node.result());
  }

  // One element for each row.
  static bool is_row_of(const graph::TensorMeta& meta, const graph::TensorMeta& whole) {
    if (meta.dim() != whole.dim() || meta.dim() == 0 || meta.sizes.back() != 1 || !meta.is_contiguous()) return false;
    for (size_t d = 0; d + 1 < meta.sizes.size(); ++d)
      if (meta.sizes[d] != whole.sizes[d]) return false;
    return true;
  }

  bool fits(const Open& group, const Node& node, FusedKind kind) const {
    const graph::TensorMeta& whole = whole_of(node, kind);
    if (whole.sizes == group.whole->sizes && whole.strides == group.whole->strides)
      return kind == FusedKind::kElementwise || whole.is_contiguous();
    return kind == FusedKind::kElementwise && group.rows && is_row_of(whole, *group.whole);
  }

  template <class F>
  void for_each_group(const Node& node, F&& f) const {
    for (const Operand& operand : node.args())
      graph::for_each_value(operand, [&](ValueId id) {
        const uint32_t group = group_of_[undetached(graph_, id).index()];
        if (group != kNone) f(group, undetached(graph_, id));
      });
  }

  // Somebody reads it: its group has to have run, so nothing joins the group any more.
  void read(uint32_t group, ValueId value) {
    groups_[group].open = false;
    read_outside_[value.index()] = true;
  }

  // A node that is in no kernel.
  void pass(const Node& node) {
    for_each_group(node, [&](uint32_t group, ValueId value) { read(group, value); });
    const graph::OpInfo& info = graph::op_info(node.op);
    // What is written, or may be, is read before and after by the right ones only.
    const bool writes = info.has(graph::kOpMutates) || info.has(graph::kOpWritesStatistics) ||
                        info.has(graph::kOpSideEffect) || graph::is_control_flow(node.op) ||
                        !graph::op_name(node.op).starts_with("aten::");
    if (writes)
      for (Open& group : groups_) group.open = false;
  }

  void place(NodeId id, FusedKind kind) {
    const Node& node = graph_.node(id);
    uint32_t into = kNone;
    for_each_group(node, [&](uint32_t group, ValueId) {
      if (group == into || !may_join(group, node, kind)) return;
      if (into == kNone) {
        into = group;
      } else if (is_same_walk(groups_[into], groups_[group]) &&
                 groups_[into].nodes.size() + groups_[group].nodes.size() < kMostNodes &&
                 groups_[into].reads + groups_[group].reads < kMostBuffers) {
        merge(group, into);
      }
    });
    if (into == kNone) {
      into = static_cast<uint32_t>(groups_.size());
      groups_.emplace_back().whole = &whole_of(node, kind);
    }
    for_each_group(node, [&](uint32_t group, ValueId value) {
      if (group != into) read(group, value);
    });
    groups_[into].nodes.push_back(id);
    groups_[into].rows |= kind == FusedKind::kRows;
    groups_[into].reads += node.operand_count;
    for (size_t i = 0; i < node.result_count; ++i) group_of_[node.result(i).index()] = into;
  }

  static bool is_same_walk(const Open& a, const Open& b) {
    return a.whole->sizes == b.whole->sizes && a.whole->strides == b.whole->strides;
  }

  bool may_join(uint32_t group, const Node& node, FusedKind kind) const {
    const Open& open = groups_[group];
    return open.open && open.nodes.size() < kMostNodes && open.reads < kMostBuffers && fits(open, node, kind);
  }

  void merge(uint32_t from, uint32_t into) {
    for (NodeId id : groups_[from].nodes) {
      const Node& node = graph_.node(id);
      for (size_t i = 0; i < node.result_count; ++i) group_of_[node.result(i).index()] = into;
    }
    std::vector<NodeId>& nodes = groups_[into].nodes;
    nodes.insert(nodes.end(), groups_[from].nodes.begin(), groups_[from].nodes.end());
    groups_[into].reads += groups_[from].reads;
    groups_[into].rows |= groups_[from].rows;
    groups_[from] = {{}, nullptr, false, 0, false};
  }

  std::vector<FusedGroup> finish() {
    std::vector<FusedGroup> fused;
    for (Open& group : groups_) {
      if (group.nodes.size() < 2) continue;
      std::sort(group.nodes.begin(), group.nodes.end());
      std::vector<ValueId> outputs;
      for (NodeId id : group.nodes) {
        const Node& node = graph_.node(id);
        for (size_t i = 0; i < node.result_count; ++i)
          if (read_outside_[node.result(i).index()]) outputs.push_back(node.result(i));
      }
      if (outputs.empty()) continue;
      if (std::optional<FusedGroup> made = lower(graph_, group.nodes, std::move(outputs)))
        fused.push_back(std::move(*made));
    }
    return fused;
  }

  const Graph& graph_;
  const std::vector<bool>& skip_;
  std::vector<Open> groups_;
  std::vector<uint32_t> group_of_;  // by value: the group that computes it
  std::vector<bool> read_outside_;  // by value
};

}  // namespace

std::vector<FusedGroup> fuse(const Graph& graph, std::span<const ValueId> keep, const std::vector<bool>& skip) {
  return Fusion(graph, keep, skip).run();
}

}  // namespace framejit::codegen
