#include "runtime/torch/traced_backward.h"

#include <c10/util/Type.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <typeinfo>

#include "runtime/torch/history.h"
#include "runtime/torch/input_fake.h"
#include "runtime/torch/node_pointer.h"

namespace framejit::torchlib {

using torch::autograd::Node;

namespace {

class FreedNode final : public Node {
 public:
  explicit FreedNode(std::string operation) : operation_(std::move(operation)) {}
  std::string name() const override { return operation_; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    TORCH_CHECK(false, torch::autograd::ERR_BACKWARD_TWICE);
  }

 private:
  const std::string operation_;
};

// By name: LibTorch does not export what a cast would compare.
bool is_written_in_python(const Node& node) { return c10::demangle(typeid(node).name()) == "torch::autograd::PyNode"; }

constexpr const char* kGoesOutside = "it goes on into the history of a tensor from outside";

// What comes to an input through the history of a tensor from outside is not known here. Nothing that lies behind the
// only input comes to it.
bool may_miss_a_part(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& inputs) {
  const auto only = inputs.size() == 1 ? torch::autograd::impl::gradient_edge(inputs[0]).function : nullptr;
  bool outside = false;
  auto visit = [&](const Node& node) { outside |= is_outside_node(node) && &node != only.get(); };
  for_each_node(roots, visit, only.get());
  return outside;
}

}  // namespace

const char* why_not_backward(const Recording& recording, const std::vector<at::Tensor>& roots,
                             const std::vector<at::Tensor>& inputs) {
  if (!recording.functions.empty()) return "a torch.autograd.Function was called";
  if (recording.recomputed > 0) return "a checkpointed function was called";
  bool runs_python = false;
  for_each_node(roots, [&](const Node& node) { runs_python |= is_written_in_python(node); });
  if (runs_python) return "a gradient is computed in Python";
  return !inputs.empty() && may_miss_a_part(roots, inputs) ? kGoesOutside : nullptr;
}

namespace {

std::vector<at::Tensor> fakes_at(const Recording& recording, std::vector<size_t>& places) {
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  std::vector<at::Tensor> fakes;
  fakes.reserve(places.size());
  for (size_t i : places) fakes.push_back(recording.inputs[i].fake);
  return fakes;
}

}  // namespace

std::vector<at::Tensor> leaves_of(const Recording& recording, const std::vector<at::Tensor>& roots,
                                  std::string* why_not) {
  const auto inputs = inputs_by_end(recording);
  std::vector<size_t> found;
  for_each_node(roots, [&](const Node& node) {
    if (is_outside_node(node)) {
      *why_not = kGoesOutside;
    } else if (auto input = inputs.find(&node); input != inputs.end()) {
      found.push_back(input->second);
    } else if (is_accumulator(node)) {
      *why_not = "it reaches a leaf that the captured function made";
    }
  });
  return fakes_at(recording, found);
}

std::vector<at::Tensor> named_leaves(const Recording& recording, const std::vector<at::Tensor>& named,
                                     std::string* why_not) {
  std::vector<size_t> found;
  for (const at::Tensor& tensor : named) {
    const auto input = std::find_if(recording.inputs.begin(), recording.inputs.end(),
                                    [&](const InputFake& candidate) { return candidate.fake.is_same(tensor); });
    if (input != recording.inputs.end() && input->requires_grad && !input->grad_fn)
      found.push_back(static_cast<size_t>(input - recording.inputs.begin()));
    else
      *why_not = "an input that is named is no leaf from outside";
  }
  return fakes_at(recording, found);
}

void set_freed_history(const at::Tensor& result, const std::string& operation, const std::vector<at::Tensor>& reached) {
  auto node = make_node<FreedNode>(operation);
  for (const at::Tensor& tensor : reached) node->add_next_edge(torch::autograd::impl::gradient_edge(tensor));
  torch::autograd::set_history(result, NodePtr(node));
}

}  // namespace framejit::torchlib
