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
    if (!node.erased && written_in_place(graph, node).valid()) aliases_.emplace(graph);
  }
}

template <class F>
void MemoryOrder::for_each_touch(const Node& node, F&& f) const {
  const ValueId written = written_in_place(graph_, node);
  for (const Operand& operand : node.args())
    graph::for_each_value(operand, [&](ValueId id) {
      const ValueId tensor = tensor_of(graph_, id);
      f(Footprint::Touch{tensor, aliases_->of(tensor), tensor == written});
    });
}

bool MemoryOrder::is_outside(ValueId tensor) const {
  return aliases_->is_input(tensor) || aliases_->is_constant(tensor);
}

bool MemoryOrder::can_be_ordered(const Node& node) const {
  if (!has_writes()) return true;
  const ValueId written = written_in_place(graph_, node);
  if (!written.valid()) return true;
  if (is_outside(written) && !may_write_inputs_) return false;
  bool reads_another = false;
  for_each_touch(node, [&](const Footprint::Touch& touch) {
    reads_another |= touch.tensor != written && touch.storage == aliases_->of(written);
  });
  return !reads_another;
}

Conflict MemoryOrder::conflict(const Footprint& group, const Node& node) const {
  if (!has_writes()) return Conflict::kNone;
  Conflict worst = Conflict::kNone;
  for_each_touch(node, [&](const Footprint::Touch& touch) {
    for (const Footprint::Touch& known : group.touches())
      if (known.storage == touch.storage && (known.written || touch.written))
        worst = std::max(worst, known.tensor == touch.tensor ? Conflict::kSameTensor : Conflict::kOtherTensor);
  });
  return worst;
}

bool MemoryOrder::writes(const Footprint& group, const Node& node) const {
  return group.writes() || (has_writes() && written_in_place(graph_, node).valid());
}

void MemoryOrder::add(const Node& node, Footprint& group) const {
  if (!has_writes()) return;
  for_each_touch(node, [&](const Footprint::Touch& touch) { group.add(touch); });
}

}  // namespace framejit::codegen
