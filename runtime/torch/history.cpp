#include "runtime/torch/history.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace framejit::torchlib {

// Of autograd's operations those whose derivatives need no tensor (LibTorch's tools/autograd/derivatives.yaml), in
// order.
constexpr std::string_view kSavesNothing[] = {
    "AddBackward0",
    "AddBackward1",
    "AliasBackward0",
    "AsStridedBackward0",
    "CatBackward0",
    "CloneBackward0",
    "DiagonalBackward0",
    "ExpandBackward0",
    "FlipBackward0",
    "MeanBackward0",
    "MeanBackward1",
    "NarrowBackward0",
    "NegBackward0",
    "PermuteBackward0",
    "RepeatBackward0",
    "ReshapeAliasBackward0",
    "RollBackward0",
    "RsubBackward0",
    "RsubBackward1",
    "SelectBackward0",
    "SliceBackward0",
    "SplitBackward0",
    "SplitWithSizesBackward0",
    "SqueezeBackward0",
    "SqueezeBackward1",
    "SqueezeBackward2",
    "SqueezeBackward3",
    "StackBackward0",
    "SubBackward0",
    "SubBackward1",
    "SumBackward0",
    "SumBackward1",
    "TBackward0",
    "ToCopyBackward0",
    "TransposeBackward0",
    "UnbindBackward0",
    "UnfoldBackward0",
    "UnsafeViewBackward0",
    "UnsqueezeBackward0",
    "ViewBackward0",
};

bool saves_tensors(const torch::autograd::Node& node) {
  return !std::binary_search(std::begin(kSavesNothing), std::end(kSavesNothing), std::string_view(node.name()));
}

bool has_node_hooks(const at::Tensor& tensor) {
  const auto* autograd = torch::autograd::impl::get_autograd_meta(tensor);
  const auto accumulator = autograd ? autograd->grad_accumulator_.lock() : nullptr;
  return accumulator && !(accumulator->pre_hooks().empty() && accumulator->post_hooks().empty());
}

bool has_gradient_hooks(const at::Tensor& tensor) {
  const auto* autograd = torch::autograd::impl::get_autograd_meta(tensor);
  if (!autograd) return false;
  return !autograd->hooks_.empty() || autograd->post_acc_grad_hooks_ || autograd->retains_grad_ ||
         has_node_hooks(tensor);
}

}  // namespace framejit::torchlib
