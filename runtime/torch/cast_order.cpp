#include "runtime/torch/cast_order.h"

#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "runtime/torch/node_pointer.h"

namespace framejit::torchlib {

using torch::autograd::Edge;

namespace {

class LaterGradients final : public torch::autograd::Node {
 public:
  LaterGradients(uint64_t number, const at::Tensor& leaf, size_t count) : Node(number) {
    const Edge end = torch::autograd::impl::gradient_edge(leaf);
    for (size_t i = 0; i < count; ++i) {
      add_input_metadata(leaf);
      add_next_edge(end);
    }
  }
  std::string name() const override { return "LaterGradients"; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return std::move(gradients);
  }
};

}  // namespace

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
  return make_node<LaterGradients>(free_, leaf, count);
}

}  // namespace framejit::torchlib
