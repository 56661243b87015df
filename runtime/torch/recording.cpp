#include "runtime/torch/recording.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "runtime/torch/convert.h"
#include "runtime/torch/history.h"
#include "runtime/torch/names.h"
#include "runtime/torch/op_entry.h"

namespace framejit::torchlib {

using graph::ValueId;

const graph::Node* view_step(const graph::Graph& graph, ValueId value, ValueId* base) {
  const graph::Value& definition = graph.value(value);
  if (definition.is_input()) return nullptr;
  const graph::Node& node = graph.node(definition.definition);
  const OpEntry* op = op_entry_by_id(node.op);
  if (!op || op->returns.empty()) return nullptr;
  const ReturnFact& fact = op->returns[std::min<size_t>(definition.index, op->returns.size() - 1)];
  if (fact.alias_arg < 0) return nullptr;
  const graph::Operand& operand = node.arg(static_cast<size_t>(fact.alias_arg));
  if (!operand.is_value()) return nullptr;
  *base = operand.as_value();
  return &node;
}

namespace {

// The fresh tensor or input that an output is a view of. `views`: whether there is a view between them. `cut`: whether
// one of these has a history of its own.
ValueId root_of(const Recording& recording, ValueId value, bool* views, bool* resized_root, bool* cut) {
  const graph::Graph& graph = recording.recorder.graph();
  ValueId base;
  while (const graph::Node* node = view_step(graph, value, &base)) {
    *cut |= recording.functions.gave(value);
    const OpEntry* op = op_entry_by_id(node->op);
    if (op->is_view) {
      *views = true;
      *resized_root = false;
    } else {
      *resized_root = true;
    }
    value = base;
  }
  return value;
}

const InputFake* input_of(const Recording& recording, const c10::TensorImpl* impl) {
  for (const InputFake& input : recording.inputs)
    if (input.fake.unsafeGetTensorImpl() == impl) return &input;
  return nullptr;
}

// Whether autograd knows the output as a view of a tensor from outside: a detached one that is written has a history of
// its own.
bool is_view_of_input(const at::Tensor& output, const Recording& recording) {
  return output.is_view() && input_of(recording, output._base().unsafeGetTensorImpl()) != nullptr;
}

const char* why_not_inputs(const Recording& recording) {
  for (const InputFake& input : recording.inputs) {
    if (input.fake.requires_grad() != input.requires_grad) return "requires_grad of a tensor from outside is changed";
    if (input.fake.grad_fn().get() != input.grad_fn)
      return "a tensor from outside that takes part in differentiation is changed in place";
  }
  return nullptr;
}

// Whether a tensor made inside of the capture collects gradients of its own.
bool has_inner_leaf(const Recording& recording) {
  const auto outside = inputs_by_end(recording);
  bool found = false;
  for_each_node(recording.root_fakes,
                [&](const torch::autograd::Node& node) { found |= outside.count(&node) == 0 && is_accumulator(node); });
  return found;
}

bool is_custom_view(const at::Tensor& output) {
  return output.is_view() && torch::autograd::impl::get_view_autograd_meta(output)->get_creation_meta() ==
                                 torch::autograd::CreationMeta::IN_CUSTOM_FUNCTION;
}

}  // namespace

std::unordered_map<const torch::autograd::Node*, uint32_t> inputs_by_end(const Recording& recording) {
  std::unordered_map<const torch::autograd::Node*, uint32_t> inputs;
  for (uint32_t i = 0; i < recording.inputs.size(); ++i)
    if (recording.inputs[i].requires_grad)
      if (auto edge = torch::autograd::impl::gradient_edge(recording.inputs[i].fake); edge.is_valid())
        inputs.emplace(edge.function.get(), i);
  return inputs;
}

bool finish_recording(Recording& recording, const std::vector<at::Tensor>& outputs, std::string* why_not) {
  const graph::Graph& graph = recording.recorder.graph();
  auto refuse = [&](const char* why) {
    *why_not = why;
    return false;
  };
  if (const char* why = why_not_inputs(recording)) return refuse(why);
  for (const InputFake& input : recording.inputs)
    if (has_names(input.fake)) return refuse("an input gets named dimensions");
  for (size_t i = 0; i < recording.inputs.size(); ++i)
    if (recording.inputs[i].requires_grad) recording.differentiable_inputs.push_back(static_cast<uint32_t>(i));

  std::unordered_map<uint32_t, bool> known_roots;
  for (const at::Tensor& output : outputs) {
    FakeImpl* fake = fake_impl(output);
    if (!fake || fake->owner() != &recording.recorder) return refuse("an output is no tensor of this capture");
    if (has_names(output)) return refuse("an output has named dimensions");
    OutputSpec& spec = recording.outputs.emplace_back();
    spec.value = fake->value();
    if (const InputFake* input = input_of(recording, fake)) {
      spec.input = static_cast<int>(input - recording.inputs.data());
      continue;
    }
    spec.data = fake->is_copy();
    spec.custom_view = is_custom_view(output);
    bool views = false, resized_root = false, cut = false;
    ValueId root = root_of(recording, spec.value, &views, &resized_root, &cut);
    if (cut && output.requires_grad()) return refuse("an output is a view that a torch.autograd.Function gave");
    if (views && resized_root) return refuse("an output is a view of a tensor that is reshaped in place");
    if (!output.requires_grad() || spec.data) continue;
    const auto number = static_cast<uint32_t>(recording.outputs.size() - 1);
    if (views) recording.views.push_back({number, graph.value(root).is_input(), output});
    if (!known_roots.try_emplace(root.value, true).second) continue;
    if (graph.value(root).is_input()) {
      if (!is_view_of_input(output, recording))
        return refuse("an output shares memory with a tensor from outside and has a history of its own");
      continue;  // LibTorch's own views of the real tensor have it
    }
    // The base of a view holds the tensor that the view was made of.
    at::Tensor root_fake = views ? at::Tensor(output._base()) : output;
    FakeImpl* root_impl = fake_impl(root_fake);
    if (!root_impl || !root_fake.requires_grad())
      return refuse("an output is a differentiable view of a tensor that is not");
    recording.roots.push_back(root);
    recording.root_fakes.push_back(root_fake);
  }
  if (has_inner_leaf(recording)) return refuse("a tensor made inside of the captured code requires grad");
  if (recording.training()) recording.joint = graph.clone();
  return true;
}

}  // namespace framejit::torchlib
