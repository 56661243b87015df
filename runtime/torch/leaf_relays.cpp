#include "runtime/torch/leaf_relays.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/torch/history.h"

namespace framejit::torchlib {

using torch::autograd::variable_list;

namespace {

// Each gradient goes on by itself, so that the leaf adds up what it would without this.
class LeafRelay final : public torch::autograd::Node {
 public:
  LeafRelay(const std::string& operation, const torch::autograd::Edge& leaf, size_t gradients) : operation_(operation) {
    const auto& metadata = leaf.function->input_metadata(leaf.input_nr);
    for (size_t i = 0; i < gradients; ++i) {
      add_metadata_like(*this, metadata, metadata.is_tensor_subclass());
      add_next_edge(leaf);
    }
  }
  std::string name() const override { return operation_; }
  variable_list apply(variable_list&& gradients) override { return std::move(gradients); }

 private:
  const std::string operation_;  // eager's in this place
};

}  // namespace

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
