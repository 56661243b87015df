#include "graph/passes/schedule.h"

#include <algorithm>

#include "graph/alias.h"
#include "graph/failure.h"

namespace framejit::graph {
namespace {

class Scheduler {
 public:
  Scheduler(const Graph& graph, const std::vector<ValueId>& stays, HasKernel has_kernel)
      : graph_(graph),
        has_kernel_(has_kernel),
        aliases_(graph),
        bytes_(aliases_.size()),
        last_reader_(aliases_.size()),
        is_movable_(graph.node_count()),
        is_view_(graph.node_count()) {
    std::vector<bool> stays_there(aliases_.size());
    for (ValueId id : stays)
      if (id.valid()) stays_there[aliases_.of(id)] = true;
    for (uint32_t n = 0; n < graph.node_count(); ++n) {
      if (graph.node(NodeId(n)).erased) continue;
      order_.push_back(NodeId(n));
      look_at(NodeId(n));
    }
    for (uint32_t i = 0; i < graph.value_count(); ++i) {
      const uint32_t of = aliases_.of(ValueId(i));
      if (const int64_t own = own_bytes(ValueId(i)); own > 0 && !stays_there[of]) bytes_[of] = own;
    }
  }

  std::vector<NodeId> run() {
    for (size_t at = 1; at < order_.size(); ++at) bring_forward(at);
    return std::move(order_);
  }

 private:
  void look_at(NodeId id) {
    constexpr uint32_t kNever =
        kOpMutates | kOpInPlace | kOpMetaInPlace | kOpRandom | kOpDataDependent | kOpSideEffect | kOpWritesStatistics;
    const Node& node = graph_.node(id);
    const OpInfo& info = op_info(node.op);
    const bool is_pure = !(info.flags & kNever) && !info.schema.empty() && !may_raise(graph_, node);
    is_view_[id.index()] = is_pure && info.has(kOpView);
    is_movable_[id.index()] = is_pure && !info.has(kOpView) && !has_kernel_(graph_, node);
    for_each_read(id, [&](ValueId read) { last_reader_[aliases_.of(read)] = id; });
  }

  template <class F>
  void for_each_read(NodeId id, F&& f) const {
    for (const Operand& operand : graph_.node(id).args()) for_each_value(operand, f);
  }

  // The node at a place, with the views that it reads, in front of the operators before it, as far as that is of use.
  void bring_forward(size_t at) {
    if (!is_movable_[order_[at].index()]) return;
    while (at > 0) {
      size_t before = at - 1;
      while (before > 0 && is_view_[order_[before].index()]) --before;
      std::vector<NodeId> moved;
      if (!is_movable_[order_[before].index()] || !find_moved(before, at, moved)) return;
      if (!holds_less(order_[before], order_[at])) return;
      std::vector<NodeId> rest;
      for (size_t i = before; i < at; ++i)
        if (std::find(moved.begin(), moved.end(), order_[i]) == moved.end()) rest.push_back(order_[i]);
      std::copy(rest.begin(), rest.end(), std::copy(moved.begin(), moved.end(), order_.begin() + before));
      free_after(order_[before + moved.size()], order_[before + moved.size() - 1]);
      at = before + moved.size() - 1;
    }
  }

  // Which nodes behind the place `before` the one at `at` needs, itself the last one. False: the one at `before` too.
  bool find_moved(size_t before, size_t at, std::vector<NodeId>& moved) const {
    std::vector<NodeId> needed = {order_[at]};
    for (size_t i = at + 1; i-- > before;) {
      if (std::find(needed.begin(), needed.end(), order_[i]) == needed.end()) continue;
      if (i == before) return false;
      moved.push_back(order_[i]);
      for_each_read(order_[i], [&](ValueId read) {
        const NodeId origin = graph_.value(read).definition;
        if (origin.valid()) needed.push_back(origin);
      });
    }
    std::reverse(moved.begin(), moved.end());
    return true;
  }

  // Of storage of its own.
  int64_t own_bytes(ValueId id) const {
    const ResultMeta& result = graph_.value(id).result;
    if (result.kind != ResultKind::kTensor || result.alias != AliasKind::kFresh) return 0;
    return result.meta.numel() * itemsize(result.meta.dtype);
  }

  int64_t made_by(NodeId id) const {
    int64_t made = 0;
    const Node& node = graph_.node(id);
    for (uint32_t i = 0; i < node.result_count; ++i) made += own_bytes(node.result(i));
    return made;
  }

  // What nobody reads after a node, less what is in `other` as well.
  int64_t freed_by(NodeId id, const std::vector<uint32_t>& other) const {
    int64_t freed = 0;
    for (uint32_t of : read_by(id))
      if (last_reader_[of] == id && std::find(other.begin(), other.end(), of) == other.end()) freed += bytes_[of];
    return freed;
  }

  std::vector<uint32_t> read_by(NodeId id) const {
    std::vector<uint32_t> classes;
    for_each_read(id, [&](ValueId read) {
      const uint32_t of = aliases_.of(read);
      if (std::find(classes.begin(), classes.end(), of) == classes.end()) classes.push_back(of);
    });
    return classes;
  }

  bool holds_less(NodeId first, NodeId second) const {
    const int64_t a = made_by(first), b = made_by(second);
    const int64_t now = std::max(a, a - freed_by(first, {}) + b);
    const int64_t then = std::max(b, b - freed_by(second, read_by(first)) + a);
    return then < now;
  }

  // What both read is free after the one that is now behind the other.
  void free_after(NodeId second, NodeId first) {
    for (uint32_t of : read_by(second))
      if (last_reader_[of] == first) last_reader_[of] = second;
  }

  const Graph& graph_;
  const HasKernel has_kernel_;
  const AliasClasses aliases_;
  std::vector<int64_t> bytes_;              // by alias class: what is free when nobody reads it any more
  std::vector<NodeId> last_reader_;         // by alias class
  std::vector<bool> is_movable_, is_view_;  // by node
  std::vector<NodeId> order_;
};

}  // namespace

std::vector<NodeId> schedule(const Graph& graph, const std::vector<ValueId>& stays, HasKernel has_kernel) {
  return Scheduler(graph, stays, has_kernel).run();
}

}  // namespace framejit::graph
