#include "codegen/kernels/fuse.h"

#include <algorithm>

#include "codegen/kernels/memory_order.h"
#include "codegen/kernels/rows.h"
#include "graph/control_flow.h"
#include "graph/failure.h"
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

class Fuser {
 public:
  Fuser(const Graph& graph, std::span<const ValueId> keep, const std::vector<bool>& skip, bool may_write_inputs)
      : graph_(graph),
        skip_(skip),
        memory_(graph, may_write_inputs),
        group_of_(graph.value_count(), kNone),
        read_outside_(graph.value_count()) {
    for (ValueId id : keep) read_outside_[tensor_of(graph, id).index()] = true;
    for (ValueId id : graph.outputs()) read_outside_[tensor_of(graph, id).index()] = true;
  }

  Fusion run() {
    for (size_t n = 0; n < graph_.node_count(); ++n) {
      const Node& node = graph_.node(NodeId(static_cast<uint32_t>(n)));
      if (node.erased || (!skip_.empty() && skip_[n]) || node.op == graph::ops::k_detach) continue;
      const FusedKind kind = memory_.can_be_ordered(node) ? fused_kind(graph_, node) : FusedKind::kNone;
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
    Dims row;                                  // of that, where it has nodes of whole rows
    bool writes_over = false;                  // elements of tensors that others made
    size_t reads = 0;
    Footprint footprint;
    bool open = true;
  };

  // The layout that a node's kernel walks over.
  const graph::TensorMeta& whole_of(const Node& node, FusedKind kind) const {
    return graph_.meta(kind == FusedKind::kRows ? tensor_of(graph_, node.arg(0).as_value()) : node.result());
  }

  bool fits(const Open& group, const Node& node, FusedKind kind) const {
    const graph::TensorMeta& whole = whole_of(node, kind);
    if (whole.device != group.whole->device) return false;
    if (whole.sizes == group.whole->sizes && whole.strides == group.whole->strides)
      return kind == FusedKind::kElementwise || are_of_one_row(group.row, row_dims(graph_, node));
    return kind == FusedKind::kElementwise && is_row_of(whole, *group.whole, group.row);
  }

  static bool are_of_one_row(Dims a, Dims b) { return a.none() || b.none() || a == b; }

  template <class F>
  void for_each_group(const Node& node, F&& f) const {
    for (const Operand& operand : node.args())
      graph::for_each_value(operand, [&](ValueId id) {
        const uint32_t group = group_of_[tensor_of(graph_, id).index()];
        if (group != kNone) f(group, tensor_of(graph_, id));
      });
  }

  // Somebody reads it: its group has to have run, so nothing joins the group any more.
  void read(uint32_t group, ValueId value) {
    groups_[group].open = false;
    read_outside_[value.index()] = true;
  }

  // Groups other than `into` that have to run before what the node does to memory.
  void close_conflicting(const Node& node, uint32_t into) {
    if (!memory_.has_writes()) return;
    std::erase_if(open_, [&](uint32_t group) { return !groups_[group].open; });
    for (uint32_t group : open_)
      if (group != into && memory_.conflict(groups_[group].footprint, node) != Conflict::kNone)
        groups_[group].open = false;
  }

  // A node that is in no kernel.
  void pass(const Node& node) {
    for_each_group(node, [&](uint32_t group, ValueId value) { read(group, value); });
    close_conflicting(node, kNone);
    const graph::OpInfo& info = graph::op_info(node.op);
    // What is written, or may be, is read before and after by the right ones only.
    const bool writes = info.has(graph::kOpMutates) || info.has(graph::kOpWritesStatistics) ||
                        info.has(graph::kOpSideEffect) || graph::is_control_flow(node.op) ||
                        !graph::op_name(node.op).starts_with("aten::");
    // Where it raises, what was written before has been written.
    const bool ends_writes = memory_.has_writes() && graph::may_raise(graph_, node);
    for (Open& group : groups_)
      if (writes || (ends_writes && group.footprint.writes())) group.open = false;
  }

  void place(NodeId id, FusedKind kind) {
    const Node& node = graph_.node(id);
    uint32_t into = kNone;
    for_each_group(node, [&](uint32_t group, ValueId) {
      if (group == into || !may_join(group, into, node, kind)) return;
      if (into == kNone) {
        into = group;
      } else if (is_same_walk(groups_[into], groups_[group]) && may_merge(groups_[into], groups_[group]) &&
                 groups_[into].nodes.size() + groups_[group].nodes.size() < kMostNodes &&
                 groups_[into].reads + groups_[group].reads < kMostBuffers) {
        merge(group, into);
      }
    });
    if (into == kNone) {
      into = static_cast<uint32_t>(groups_.size());
      groups_.emplace_back().whole = &whole_of(node, kind);
      open_.push_back(into);
    }
    close_conflicting(node, into);
    for_each_group(node, [&](uint32_t group, ValueId value) {
      if (group != into) read(group, value);
    });
    groups_[into].nodes.push_back(id);
    if (kind == FusedKind::kRows) groups_[into].row = row_dims(graph_, node);
    groups_[into].writes_over |= writes_over(into, node);
    for (const Operand& operand : node.args()) graph::for_each_value(operand, [&](ValueId) { ++groups_[into].reads; });
    memory_.add(node, groups_[into].footprint);
    std::vector<ValueId> written = written_by_rows(graph_, node);
    written.push_back(written_in_place(graph_, node));
    for (ValueId id : written)
      if (id.valid() && memory_.is_outside(id)) apart_.push_back(id);
    set_group(node, into);
  }

  void set_group(const Node& node, uint32_t group) {
    for (size_t i = 0; i < node.result_count; ++i) group_of_[tensor_of(graph_, node.result(i)).index()] = group;
  }

  static bool is_same_walk(const Open& a, const Open& b) {
    return a.whole->sizes == b.whole->sizes && a.whole->strides == b.whole->strides &&
           a.whole->device == b.whole->device && are_of_one_row(a.row, b.row);
  }

  // A pass over a row would read again what an earlier one has written.
  static bool may_merge(const Open& a, const Open& b) {
    return !(a.row.any() && b.writes_over) && !(b.row.any() && a.writes_over);
  }

  // `into`: the group that it joins already, or none.
  bool may_join(uint32_t group, uint32_t into, const Node& node, FusedKind kind) const {
    const Open& open = groups_[group];
    return open.open && open.nodes.size() < kMostNodes && open.reads < kMostBuffers && fits(open, node, kind) &&
           memory_.conflict(open.footprint, node) != Conflict::kOtherTensor && !reads_without_dims(group, node) &&
           !((open.writes_over || (writes_over(group, node) && (into == kNone || writes_over(into, node)))) &&
             (open.row.any() || kind == FusedKind::kRows));
  }

  // What the group itself makes is in its steps until all of them are done.
  bool writes_over(uint32_t group, const Node& node) const {
    const ValueId written = written_in_place(graph_, node);
    return written.valid() && group_of_[written.index()] != group;
  }

  // What the group leaves of its rows without their dimensions: along others, nodes read something else.
  bool reads_without_dims(uint32_t group, const Node& node) const {
    bool reads = false;
    for_each_group(node, [&](uint32_t of, ValueId value) { reads |= of == group && drops_dims(graph_, value); });
    return reads;
  }

  void merge(uint32_t from, uint32_t into) {
    for (NodeId id : groups_[from].nodes) set_group(graph_.node(id), into);
    std::vector<NodeId>& nodes = groups_[into].nodes;
    nodes.insert(nodes.end(), groups_[from].nodes.begin(), groups_[from].nodes.end());
    groups_[into].reads += groups_[from].reads;
    groups_[into].row |= groups_[from].row;
    groups_[into].writes_over |= groups_[from].writes_over;
    groups_[into].footprint.append(groups_[from].footprint);
    groups_[from] = {};
    groups_[from].open = false;
  }

  Fusion finish() {
    Fusion fusion;
    for (Open& group : groups_) {
      if (group.nodes.empty()) continue;
      if (group.nodes.size() == 1 && !is_worth_a_kernel(graph_, graph_.node(group.nodes[0]))) continue;
      std::sort(group.nodes.begin(), group.nodes.end());
      std::vector<ValueId> outputs;
      for (NodeId id : group.nodes) {
        const Node& node = graph_.node(id);
        for (size_t i = 0; i < node.result_count; ++i)
          if (read_outside_[node.result(i).index()] && tensor_of(graph_, node.result(i)) == node.result(i))
            outputs.push_back(node.result(i));
      }
      if (outputs.empty() && !group.footprint.writes()) continue;
      std::optional<FusedGroup> made = lower(graph_, group.nodes, std::move(outputs));
      if (made) fusion.groups.push_back(std::move(*made));
    }
    // Also what is written by groups that became no kernel: others are ordered by it.
    if (!fusion.groups.empty()) fusion.apart = std::move(apart_);
    return fusion;
  }

  const Graph& graph_;
  const std::vector<bool>& skip_;
  const MemoryOrder memory_;
  std::vector<Open> groups_;
  std::vector<uint32_t> open_;      // those of them that may be
  std::vector<uint32_t> group_of_;  // by value: the group that computes it
  std::vector<bool> read_outside_;  // by value
  std::vector<ValueId> apart_;
};

}  // namespace

Fusion fuse(const Graph& graph, std::span<const ValueId> keep, const std::vector<bool>& skip, bool may_write_inputs) {
  return Fuser(graph, keep, skip, may_write_inputs).run();
}

}  // namespace framejit::codegen
