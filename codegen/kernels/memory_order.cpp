#include "codegen/kernels/memory_order.h"

#include <algorithm>

#include "codegen/kernels/lower.h"

namespace framejit::codegen {

using graph::Graph;
using graph::Node;
using graph::Operand;
using graph::ValueId;

void Footprint::add(const Touch& touch) {
  writes_ |= touch.written;
  for (Touch& known : touches_) {
    if (known.tensor != touch.tensor) continue;
    known.written |= touch.written;
    known.by_rows |= touch.by_rows;
    return;
  }
  touches_.push_back(touch);
}

void Footprint::append(const Footprint& other) {
  for (const Touch& touch : other.touches_) add(touch);
}

MemoryOrder::MemoryOrder(const Graph& graph, bool may_write_inputs)
    : graph_(graph), may_write_inputs_(may_write_inputs) {
  for (size_t n = 0; n < graph.node_count() && !aliases_; ++n) {
    const Node& node = graph.node(graph::NodeId(static_cast<uint32_t>(n)));
    if (node.erased) continue;
    if (written_in_place(graph, node).valid() || !written_by_rows(graph, node).empty()) aliases_.emplace(graph);
  }
}

template <class F>
void MemoryOrder::for_each_touch(const Node& node, F&& f) const {
  const ValueId written = written_in_place(graph_, node);
  const std::vector<ValueId> by_rows = written_by_rows(graph_, node);
  for (const Operand& operand : node.args())
    graph::for_each_value(operand, [&](ValueId id) {
      const ValueId tensor = tensor_of(graph_, id);
      const bool of_row = std::find(by_rows.begin(), by_rows.end(), tensor) != by_rows.end();
      f(Footprint::Touch{tensor, aliases_->of(tensor), of_row || tensor == written, of_row});
    });
}

bool MemoryOrder::is_outside(ValueId tensor) const {
  return aliases_->is_input(tensor) || aliases_->is_constant(tensor);
}

bool MemoryOrder::can_be_ordered(const Node& node) const {
  if (!has_writes()) return true;
  std::vector<Footprint::Touch> touches;
  for_each_touch(node, [&](const Footprint::Touch& touch) { touches.push_back(touch); });
  for (const Footprint::Touch& one : touches) {
    if (!one.written) continue;
    if (is_outside(one.tensor) && !may_write_inputs_) return false;
    // What is written by rows is no other operand; what is written in place may be.
    const auto shares = [&](const Footprint::Touch& other) {
      return other.storage == one.storage && (one.by_rows ? &other != &one : other.tensor != one.tensor);
    };
    if (std::any_of(touches.begin(), touches.end(), shares)) return false;
  }
  return true;
}

namespace {

// Whether one kernel keeps the order of both.
bool is_kept(const Footprint::Touch& a, const Footprint::Touch& b) {
  return a.tensor == b.tensor && !a.by_rows && !b.by_rows;
}

}  // namespace

Conflict MemoryOrder::conflict(const Footprint& group, const Node& node) const {
  if (!has_writes()) return Conflict::kNone;
  Conflict worst = Conflict::kNone;
  for_each_touch(node, [&](const Footprint::Touch& touch) {
    for (const Footprint::Touch& known : group.touches())
      if (known.storage == touch.storage && (known.written || touch.written))
        worst = std::max(worst, is_kept(known, touch) ? Conflict::kSameTensor : Conflict::kOtherTensor);
  });
  return worst;
}

void MemoryOrder::add(const Node& node, Footprint& group) const {
  if (!has_writes()) return;
  for_each_touch(node, [&](const Footprint::Touch& touch) { group.add(touch); });
}

}  // namespace framejit::codegen
