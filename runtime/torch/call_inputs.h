// The inputs of one call of a captured graph, for gradients of gradients.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace framejit::torchlib {

// All inputs of a call. Gradients of gradients begin with them. As objects they are not kept alive for that, and of
// those that are not saved what they hold is: a leaf that gets gradients lives as long as its history does.
class CallInputs {
 public:
  CallInputs(const at::Tensor* inputs, size_t count, const std::vector<uint32_t>& kept) {
    inputs_.reserve(count);
    for (size_t i = 0; i < count; ++i)
      inputs_.push_back({c10::weak_intrusive_ptr<c10::TensorImpl>(inputs[i].getIntrusivePtr()), version_of(inputs[i])});
    for (uint32_t i : kept)
      if (!lives_with_history(inputs[i]) && !inputs[i].key_set().has(c10::DispatchKey::Python))
        kept_.push_back(keep(i, inputs[i]));
  }
  at::Tensor at(uint32_t i) const {
    at::Tensor input(inputs_[i].impl.lock());
    if (!input.defined()) input = as_it_was(i);
    TORCH_CHECK(input.defined(), "framejit: an input of a captured graph is gone before its second derivative");
    TORCH_CHECK(version_of(input) == inputs_[i].version,
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                "an input of a captured graph is at version ",
                version_of(input), "; expected version ", inputs_[i].version, " instead.");
    return input;
  }

 private:
  struct Input {
    c10::weak_intrusive_ptr<c10::TensorImpl> impl;
    uint32_t version;
  };
  struct Kept {
    uint32_t input;
    at::Tensor data;
    torch::autograd::Edge history;
  };
  static bool lives_with_history(const at::Tensor& input) { return input.is_leaf() && input.requires_grad(); }
  static Kept keep(uint32_t i, const at::Tensor& input) {
    const c10::TensorImpl& impl = *input.unsafeGetTensorImpl();
    at::Tensor data(impl.shallow_copy_and_detach(impl.version_counter(), true));
    return {i, std::move(data),
            input.requires_grad() ? torch::autograd::impl::gradient_edge(input) : torch::autograd::Edge()};
  }
  at::Tensor as_it_was(uint32_t i) const {
    const auto kept = std::find_if(kept_.begin(), kept_.end(), [i](const Kept& each) { return each.input == i; });
    if (kept == kept_.end()) return {};
    const c10::TensorImpl& impl = *kept->data.unsafeGetTensorImpl();
    at::Tensor tensor(impl.shallow_copy_and_detach(impl.version_counter(), true));
    if (kept->history.is_valid()) torch::autograd::impl::set_gradient_edge(tensor, kept->history);
    return tensor;
  }
  static uint32_t version_of(const at::Tensor& tensor) {
    return tensor.is_inference() ? 0 : static_cast<uint32_t>(tensor._version());
  }

  std::vector<Input> inputs_;
  std::vector<Kept> kept_;
};

}  // namespace framejit::torchlib
