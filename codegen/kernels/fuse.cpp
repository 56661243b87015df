#include "codegen/kernels/fuse.h"

#include <algorithm>

#include "graph/control_flow.h"
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
      if (node.erased || (!skip_.empty() && skip_[n]) || graph::op_name(node.op) == "aten::detach") continue;
      if (can_be_fused(graph_, node)) {
        place(NodeId(static_cast<uint32_t>(n)));
      } else {
        pass(node);
      }
    }
    return finish();
  }

 private:
  static constexpr uint32_t kNone = 0xffffffffu;
  struct Open {
    std::vector<NodeId> nodes;
    size_t reads = 0;
    bool open = true;
  };

  bool is_of_layout(uint32_t group, ValueId value) const {
    const graph::TensorMeta& a = graph_.meta(graph_.node(groups_[group].nodes.front()).result());
    const graph::TensorMeta& b = graph_.meta(value);
    return a.sizes == b.sizes && a.strides == b.strides;
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

  void place(NodeId id) {
    const Node& node = graph_.node(id);
    uint32_t into = kNone;
    for_each_group(node, [&](uint32_t group, ValueId) {
      if (group == into || !may_join(group, node)) return;
      if (into == kNone) {
        into = group;
      } else if (groups_[into].nodes.size() + groups_[group].nodes.size() < kMostNodes &&
                 groups_[into].reads + groups_[group].reads < kMostBuffers) {
        merge(group, into);
      }
    });
    if (into == kNone) {
      into = static_cast<uint32_t>(groups_.size());
      groups_.emplace_back();
    }
    for_each_group(node, [&](uint32_t group, ValueId value) {
      if (group != into) read(group, value);
    });
    groups_[into].nodes.push_back(id);
    groups_[into].reads += node.operand_count;
    group_of_[node.result().index()] = into;
  }

  bool may_join(uint32_t group, const Node& node) const {
    const Open& open = groups_[group];
    return open.open && open.nodes.size() < kMostNodes && open.reads < kMostBuffers &&
           is_of_layout(group, node.result());
  }

  void merge(uint32_t from, uint32_t into) {
    for (NodeId id : groups_[from].nodes) group_of_[graph_.node(id).result().index()] = into;
    std::vector<NodeId>& nodes = groups_[into].nodes;
    nodes.insert(nodes.end(), groups_[from].nodes.begin(), groups_[from].nodes.end());
    groups_[into].reads += groups_[from].reads;
    groups_[from] = {{}, 0, false};
  }

  std::vector<FusedGroup> finish() {
    std::vector<FusedGroup> fused;
    for (Open& group : groups_) {
      if (group.nodes.size() < 2) continue;
      std::sort(group.nodes.begin(), group.nodes.end());
      std::vector<ValueId> outputs;
      for (NodeId id : group.nodes)
        if (read_outside_[graph_.node(id).result().index()]) outputs.push_back(graph_.node(id).result());
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
