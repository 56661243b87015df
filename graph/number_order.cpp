#include "graph/number_order.h"

#include "graph/alias.h"
#include "graph/control_flow.h"
#include "graph/failure.h"
#include "graph/number.h"

namespace framejit::graph {
namespace {

constexpr int64_t kFewElements = 16;
constexpr uint32_t kStays = kOpRandom | kOpSideEffect | kOpDataDependent | kOpUninitialized;

class NumberOrder {
 public:
  NumberOrder(const Graph& graph, const std::vector<bool>& bound, OutsideMemory outside)
      : graph_(graph),
        bound_(bound),
        outside_(outside),
        aliases_(graph),
        stays_(graph.node_count()),
        written_late_(aliases_.size() + 1),
        read_late_(aliases_.size() + 1),
        needed_(graph.value_count()),
        read_(aliases_.size() + 1),
        written_(aliases_.size() + 1) {}

  std::vector<bool> run() {
    for (size_t n = 0; n < graph_.node_count(); ++n)
      if (!node(n).erased) find_whether_it_stays(n);
    std::vector<bool> moved(graph_.node_count());
    for (size_t n = graph_.node_count(); n-- > 0;) {
      if (node(n).erased || stays_[n] || !(is_root(graph_, node(n)) || is_needed(node(n)))) continue;
      moved[n] = true;
      need_what_it_needs(node(n));
    }
    return moved;
  }

  static bool is_root(const Graph& graph, const Node& node) {
    return find_number_op(node.op) && raises_on_data(graph, node);
  }

 private:
  const Node& node(size_t n) const { return graph_.node(NodeId(n)); }

  // What shares memory has one number: a class, or behind those one for all outside memory.
  size_t memory_of(ValueId id) const {
    const bool may_overlap =
        outside_ == OutsideMemory::kMayOverlap && (aliases_.is_input(id) || aliases_.is_constant(id));
    return may_overlap ? aliases_.size() : aliases_.of(id);
  }

  template <class F>
  void each_read(const Node& node, F&& f) const {
    for (const Operand& operand : node.args()) for_each_value(operand, f);
  }
  template <class F>
  void each_write(const Node& node, F&& f) {
    written_values(graph_, node, values_);
    for (ValueId id : values_) f(id);
  }

  bool is_small(const Node& node) {
    const OpInfo& info = op_info(node.op);
    if (info.schema.empty() || (info.flags & kStays) || is_control_flow(node.op) || !node.state.empty()) return false;
    if (!find_number_op(node.op) && may_raise(graph_, node)) return false;
    for (size_t i = 0; i < node.result_count; ++i)
      if (graph_.meta(node.result(i)).numel() > kFewElements) return false;
    bool small = true;
    each_write(node, [&](ValueId id) { small &= graph_.meta(id).numel() <= kFewElements; });
    return small;
  }

  // A node that is not small stays where it is, and so does what comes after it for its data.
  void find_whether_it_stays(size_t n) {
    bool stays = bound_[n] || !is_small(node(n));
    each_read(node(n), [&](ValueId id) {
      const Value& value = graph_.value(id);
      stays |= (!value.is_input() && stays_[value.definition.index()]) || written_late_[memory_of(id)];
    });
    each_write(node(n), [&](ValueId id) { stays |= written_late_[memory_of(id)] || read_late_[memory_of(id)]; });
    stays_[n] = stays;
    if (!stays) return;
    each_read(node(n), [&](ValueId id) { read_late_[memory_of(id)] = true; });
    each_write(node(n), [&](ValueId id) { written_late_[memory_of(id)] = true; });
  }

  bool is_needed(const Node& node) {
    bool needed = false;
    for (size_t i = 0; i < node.result_count; ++i) needed |= needed_[node.result(i).index()];
    each_read(node, [&](ValueId id) { needed |= written_[memory_of(id)]; });
    each_write(node, [&](ValueId id) { needed |= read_[memory_of(id)] || written_[memory_of(id)]; });
    return needed;
  }

  void need_what_it_needs(const Node& node) {
    each_read(node, [&](ValueId id) {
      needed_[id.index()] = true;
      read_[memory_of(id)] = true;
    });
    each_write(node, [&](ValueId id) { written_[memory_of(id)] = true; });
  }

  const Graph& graph_;
  const std::vector<bool>& bound_;
  const OutsideMemory outside_;
  AliasClasses aliases_;
  std::vector<bool> stays_;                     // by node
  std::vector<bool> written_late_, read_late_;  // by memory_of(): by a node that stays, up to here
  std::vector<bool> needed_;                    // by value: of a node that is moved, further on
  std::vector<bool> read_, written_;            // by memory_of(): the same
  std::vector<ValueId> values_;
};

}  // namespace

std::vector<bool> nodes_of_numbers(const Graph& graph, const std::vector<bool>& bound, OutsideMemory outside) {
  for (size_t n = 0; n < graph.node_count(); ++n)
    if (!graph.node(NodeId(n)).erased && NumberOrder::is_root(graph, graph.node(NodeId(n))))
      return NumberOrder(graph, bound, outside).run();
  return {};
}

}  // namespace framejit::graph
