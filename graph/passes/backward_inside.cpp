#include "graph/passes/backward_inside.h"

#include <algorithm>

#include "graph/alias.h"
#include "graph/node_copy.h"
#include "graph/passes/dce.h"
#include "graph/passes/rematerialize.h"
#include "graph/stepped.h"

namespace framejit::graph {
namespace {

// The nodes of a step are a forward, a backward that writes nothing of what the forward knows, and the rest.
class Step {
 public:
  Step(const Graph& graph, NodeId backward)
      : graph_(graph),
        begin_(backward.value),
        end_(backward.value),
        aliases_(graph),
        of_forward_(aliases_.size()),
        written_(aliases_.size()),
        seen_(aliases_.size()),
        to_forward_(graph, forward_, false),
        to_backward_(graph, backward_, true) {}

  std::optional<ChangedGraph> run(HasKernel is_cheap, int64_t small) {
    copy_forward();
    find_end();
    find_seen();
    copy_backward();
    const Rematerialization again(forward_, is_cheap);
    const std::vector<ValueId> kept = again.values_to_keep(needed_, kept_anyway(), small);
    if (are_needed(kept)) return std::nullopt;
    const std::vector<ValueId> seen = seen_of_backward(), values = mapped(seen, to_backward_);
    const std::optional<Rematerialized> made = again.over(backward_, needed_, kept, values);
    if (!made) return std::nullopt;
    return joined(kept, *made, seen);
  }

 private:
  template <class F>
  void for_each_node(uint32_t begin, uint32_t end, F&& f) const {
    for (uint32_t n = begin; n < end; ++n)
      if (!graph_.node(NodeId(n)).erased) f(graph_.node(NodeId(n)));
  }

  template <class F>
  void for_each_read(const Node& node, F&& f) const {
    for (const Operand& operand : node.args()) for_each_value(operand, f);
  }

  static std::vector<ValueId> mapped(const std::vector<ValueId>& values, const NodeCopy& copy) {
    std::vector<ValueId> found;
    found.reserve(values.size());
    for (ValueId value : values) found.push_back(copy.at(value));
    return found;
  }

  bool is_of_forward(ValueId value) const { return to_forward_.has(value); }

  void copy_forward() {
    for (ValueId input : graph_.inputs()) to_forward_.add_input(input);
    for_each_node(0, begin_, [&](const Node& node) {
      to_forward_.add(node);
      for_each_read(node, [&](ValueId read) { of_forward_[aliases_.of(read)] = true; });
      for (uint32_t i = 0; i < node.result_count; ++i) of_forward_[aliases_.of(node.result(i))] = true;
    });
    for (uint32_t i = 0; i < graph_.value_count(); ++i) {
      if (!is_of_forward(ValueId(i))) continue;
      const ValueId copy = to_forward_.at(ValueId(i));
      if (origins_.size() <= copy.index()) origins_.resize(copy.index() + 1);
      origins_[copy.index()] = ValueId(i);
    }
  }

  // Operators of the backward change their places among each other.
  bool belongs_to_backward(const Node& node, const std::vector<ValueId>& writes) const {
    constexpr uint32_t kNever = kOpRandom | kOpDataDependent | kOpSideEffect | kOpWritesStatistics | kOpMetaInPlace;
    const OpInfo& info = op_info(node.op);
    return node.state.empty() && !info.schema.empty() && !(info.flags & kNever) &&
           std::none_of(writes.begin(), writes.end(), [&](ValueId id) { return of_forward_[aliases_.of(id)]; });
  }

  void find_end() {
    std::vector<ValueId> writes;
    for (; end_ < graph_.node_count(); ++end_) {
      const Node& node = graph_.node(NodeId(end_));
      if (node.erased) continue;
      writes.clear();
      written_values(graph_, node, writes);
      if (!belongs_to_backward(node, writes)) return;
      for (ValueId id : writes) written_[aliases_.of(id)] = true;
    }
  }

  // By others than the forward and the backward.
  void find_seen() {
    for (ValueId output : graph_.outputs()) seen_[aliases_.of(output)] = true;
    for_each_node(end_, graph_.node_count(), [&](const Node& node) {
      for_each_read(node, [&](ValueId read) { seen_[aliases_.of(read)] = true; });
    });
  }

  void copy_backward() {
    std::vector<ValueId> from, further;
    std::vector<bool> known(graph_.value_count());
    for_each_node(begin_, end_, [&](const Node& node) {
      for_each_read(node, [&](ValueId read) {
        if (!is_of_forward(read) || known[read.index()]) return;
        known[read.index()] = true;
        (written_[aliases_.of(read)] ? further : from).push_back(read);
      });
    });
    needed_ = mapped(from, to_forward_);
    further_ = std::move(further);
    for (ValueId id : from) to_backward_.add_input(id);
    for (ValueId id : further_) to_backward_.add_input(id);
    for_each_node(begin_, end_, [&](const Node& node) { to_backward_.add(node); });
  }

  // Of the forward: what is there afterwards as well, and what must be the same to the last bit.
  std::vector<ValueId> kept_anyway() const {
    std::vector<ValueId> found;
    for (uint32_t i = 0; i < origins_.size(); ++i)
      if (origins_[i].valid() && seen_[aliases_.of(origins_[i])]) found.push_back(ValueId(i));
    const std::vector<bool> exact = inputs_read_by_steps(backward_);
    for (size_t i = 0; i < needed_.size(); ++i)
      if (exact[i]) found.push_back(needed_[i]);
    return found;
  }

  // `kept` is in order.
  bool are_needed(const std::vector<ValueId>& kept) const {
    std::vector<ValueId> needed = needed_;
    std::sort(needed.begin(), needed.end());
    return kept == needed;
  }

  // Of the backward, by others than the forward and itself; with all that an output is a view of.
  std::vector<ValueId> seen_of_backward() const {
    std::vector<ValueId> found;
    for_each_node(begin_, end_, [&](const Node& node) {
      for (uint32_t i = 0; i < node.result_count; ++i)
        if (seen_[aliases_.of(node.result(i))]) found.push_back(node.result(i));
    });
    return found;
  }

  ChangedGraph joined(const std::vector<ValueId>& kept, const Rematerialized& backward,
                      const std::vector<ValueId>& seen) const {
    ChangedGraph joined{Graph("recomputed"), {}};
    NodeCopy outer(graph_, joined.graph, true), inner(backward.graph, joined.graph, true);
    for (ValueId input : graph_.inputs()) outer.add_input(input);
    for_each_node(0, begin_, [&](const Node& node) { outer.add(node); });
    const std::span<const ValueId> inputs = backward.graph.inputs();
    for (size_t i = 0; i < inputs.size(); ++i)
      inner.map(inputs[i], outer.at(i < kept.size() ? origins_[kept[i].index()] : further_[i - kept.size()]));
    for (uint32_t n = 0; n < backward.graph.node_count(); ++n)
      if (const Node& node = backward.graph.node(NodeId(n)); !node.erased) inner.add(node);
    for (size_t i = 0; i < seen.size(); ++i) outer.map(seen[i], inner.at(backward.values[i]));
    for_each_node(end_, graph_.node_count(), [&](const Node& node) { outer.add(node); });
    joined.graph.set_outputs(mapped({graph_.outputs().begin(), graph_.outputs().end()}, outer));
    eliminate_dead_code(joined.graph);
    joined.graph.compact();
    for (uint32_t i = 0; i < graph_.value_count(); ++i)
      joined.values.push_back(outer.has(ValueId(i)) ? outer.at(ValueId(i)) : ValueId());
    return joined;
  }

  const Graph& graph_;
  const uint32_t begin_;  // of the backward
  uint32_t end_;
  const AliasClasses aliases_;
  std::vector<bool> of_forward_, written_,
      seen_;  // by alias class: read or made by the forward, written by the backward
  Graph forward_{"forward"}, backward_{"backward"};
  NodeCopy to_forward_, to_backward_;
  std::vector<ValueId> origins_;  // by value of the forward
  std::vector<ValueId> needed_;   // values of the forward that the backward reads
  std::vector<ValueId> further_;  // inputs that it writes
};

}  // namespace

std::optional<ChangedGraph> recompute_in_backward(const Graph& graph, NodeId backward, HasKernel is_cheap,
                                                  int64_t small) {
  if (backward.index() >= graph.node_count()) return std::nullopt;  // what was recorded of it has been taken back
  return Step(graph, backward).run(is_cheap, small);
}

}  // namespace framejit::graph
