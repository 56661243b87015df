#include "runtime/torch/leaf_relays.h"

#include <algorithm>

#include "runtime/torch/history.h"
#include "runtime/torch/leaf_relay.h"

namespace framejit::torchlib {

LeafRelays::LeafRelays(const Recording& recording, const History& history, const at::Tensor* inputs, bool sums)
    : recording_(recording), history_(history), inputs_(inputs), sums_(sums) {
  const std::vector<uint32_t>& leaves = recording.differentiable_inputs;
  auto tells_order = [&](uint32_t i) { return has_gradient_hooks(inputs[i]) && inputs[i].is_leaf(); };
  are_needed_ = std::any_of(leaves.begin(), leaves.end(), tells_order);
  if (are_needed_) relays_.resize(history.ends.size());
}

void LeafRelays::make(const HistoryEnd& end, const BlockExit& exit) {
  const at::Tensor& leaf = inputs_[recording_.differentiable_inputs[exit.index]];
  relays_[exit.end] = make_node<LeafRelay>(end.operation, torch::autograd::impl::gradient_edge(leaf),
                                           sums_ ? size_t{1} : exit.arrivals.size());
}

}  // namespace framejit::torchlib
