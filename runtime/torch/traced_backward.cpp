#include "runtime/torch/traced_backward.h"

#include <c10/util/Type.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <typeinfo>
#include <unordered_map>

#include "runtime/torch/history.h"
#include "runtime/torch/input_fake.h"
#include "runtime/torch/node_pointer.h"

namespace framejit::torchlib {

using torch::autograd::Node;

namespace {

class FreedNode final : public Node {
 public:
  std::string name() const override { return "CapturedGraphBackward"; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    TORCH_CHECK(false, torch::autograd::ERR_BACKWARD_TWICE);
  }
};

// By name: LibTorch does not export what a cast would compare.
bool is_written_in_python(const Node& node) { return c10::demangle(typeid(node).name()) == "torch::autograd::PyNode"; }

}  // namespace

const char* why_not_backward(const Recording& recording, const std::vector<at::Tensor>& roots) {
  if (!recording.functions.empty()) return "a torch.autograd.Function was called";
  if (recording.recomputed > 0) return "a checkpointed function was called";
  bool runs_python = false;
  for_each_node(roots, [&](const Node& node) { runs_python |= is_written_in_python(node); });
  return runs_python ? "a gradient is computed in Python" : nullptr;
}

std::vector<at::Tensor> leaves_of(const Recording& recording, const std::vector<at::Tensor>& roots,
                                  std::string* why_not) {
  std::unordered_map<const Node*, size_t> inputs;
  for (size_t i = 0; i < recording.inputs.size(); ++i) {
    const InputFake& input = recording.inputs[i];
    if (input.requires_grad && !input.grad_fn)
      inputs.emplace(torch::autograd::impl::gradient_edge(input.fake).function.get(), i);
  }
  std::vector<size_t> found;
  for_each_node(roots, [&](const Node& node) {
    if (auto input = inputs.find(&node); input != inputs.end()) {
      found.push_back(input->second);
    } else if (is_outside_node(node)) {
      *why_not = "it goes on into the history of a tensor from outside";
    } else if (is_accumulator(node)) {
      *why_not = "it reaches a leaf that the captured function made";
    }
  });
  std::sort(found.begin(), found.end());
  std::vector<at::Tensor> leaves;
  leaves.reserve(found.size());
  for (size_t i : found) leaves.push_back(recording.inputs[i].fake);
  return leaves;
}

void set_freed_history(const at::Tensor& result) { torch::autograd::set_history(result, make_node<FreedNode>()); }

}  // namespace framejit::torchlib
