#include "runtime/torch/cast_order.h"

#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "runtime/torch/leaf_relay.h"

namespace framejit::torchlib {

void begin_casts_of_call() { at::sequence_number::get_and_increment(); }

CastOrder::CastOrder(const Recording& recording, const at::Tensor* inputs) : free_(at::sequence_number::peek()) {
  for (const CastInput& cast : recording.casts) {
    const NodePtr made = inputs[cast.input].grad_fn();
    numbers_.push_back(made ? made->sequence_nr() : 0);
  }
  while (free_ > 0 && std::find(numbers_.begin(), numbers_.end(), --free_) != numbers_.end()) {
  }
}

NodePtr CastOrder::behind(uint32_t cast, const at::Tensor& leaf, size_t count) const {
  if (numbers_[cast] <= free_) return nullptr;
  return make_node<LeafRelay>(free_, "LaterGradients", torch::autograd::impl::gradient_edge(leaf), count);
}

}  // namespace framejit::torchlib
