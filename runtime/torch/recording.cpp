#include "runtime/torch/recording.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <optional>

#include "graph/alias.h"
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

std::unordered_set<uint32_t> reshaped_values(const graph::Graph& graph) {
  std::unordered_set<uint32_t> found;
  for (size_t n = 0; n < graph.node_count(); ++n) {
    const graph::Node& node = graph.node(graph::NodeId(n));
    if (node.erased) continue;
    for (size_t r = 0; r < node.result_count; ++r) {
      ValueId before;
      if (!view_step(graph, node.result(r), &before) || op_entry_by_id(node.op)->is_view) continue;
      const graph::TensorMeta &was = graph.meta(before), &is = graph.meta(node.result(r));
      if (was.sizes != is.sizes || was.strides != is.strides || was.storage_offset != is.storage_offset)
        found.insert(before.value);
    }
  }
  return found;
}

namespace {

using Values = std::unordered_set<uint32_t>;

struct ChainOfViews {
  ValueId root;         // the fresh tensor or input that an output is a view of
  graph::NodeId first;  // the view of the root
  bool views = false;
  // A tensor that one of the views is of is reshaped in place after, or written on the way: views are made at the
  // graph's end, of what it is by then.
  bool reshaped = false;
  bool root_reshaped = false;  // the root is, before
  bool in_place = false;       // one of the views is reshaped in place itself
  bool cut = false;            // one of these has a history of its own
};

// The number of nodes up to the last one that writes a tensor from outside: any of them may share memory with any
// other.
size_t end_of_writes_to_inputs(const graph::Graph& graph) {
  const graph::AliasClasses aliases(graph);
  std::vector<ValueId> written;
  for (size_t end = graph.node_count(); end > 0; --end) {
    const graph::Node& node = graph.node(graph::NodeId(end - 1));
    if (node.erased) continue;
    graph::written_values(graph, node, written);
    if (std::any_of(written.begin(), written.end(), [&](ValueId id) { return aliases.is_input(id); })) return end;
  }
  return 0;
}

ChainOfViews chain_of(const Recording& recording, const Values& reshaped, ValueId value) {
  const graph::Graph& graph = recording.recorder.graph();
  ChainOfViews chain{value};
  bool writes = false;
  ValueId base;
  while (const graph::Node* node = view_step(graph, chain.root, &base)) {
    chain.cut |= recording.functions.gave(chain.root);
    const OpEntry& op = *op_entry_by_id(node->op);
    const bool view = op.is_view;
    chain.in_place |= !view;
    writes |= !view && !op.info->has(graph::kOpMetaInPlace);
    chain.views |= view;
    chain.reshaped |= view && reshaped.count(base.value) != 0;
    chain.root_reshaped = !view;
    chain.first = graph.value(chain.root).definition;
    chain.root = base;
  }
  chain.reshaped |= chain.views && writes;
  return chain;
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
bool has_inner_leaf(Recording& recording) {
  if (recording.root_fakes.empty()) return false;  // asking for the ends of inputs makes nodes
  const auto outside = inputs_by_end(recording);
  bool found = false;
  for_each_node(recording.root_fakes, [&](const torch::autograd::Node& node) {
    if (outside.count(&node) != 0 || !is_accumulator(node)) return;
    found = true;
    const FakeImpl* leaf = fake_impl(static_cast<const torch::autograd::AccumulateGrad&>(node).variable);
    if (!leaf || leaf->owner() != &recording.recorder) return;
    const graph::NodeId made = recording.recorder.graph().value(leaf->value()).definition;
    if (made.valid() && (!recording.inner_leaf.valid() || made < recording.inner_leaf)) recording.inner_leaf = made;
  });
  return found;
}

// By alias class: what the graph writes by operators that count in a tensor's version. The dispatcher counts for fakes
// as well.
struct CountedWrites {
  std::vector<uint32_t> by_dispatcher;
  std::vector<bool> by_others;
};

CountedWrites counted_writes(const graph::Graph& graph, const graph::AliasClasses& aliases) {
  CountedWrites all{std::vector<uint32_t>(aliases.size()), std::vector<bool>(aliases.size())};
  std::vector<ValueId> written;
  for (size_t n = 0; n < graph.node_count(); ++n) {
    const graph::Node& node = graph.node(graph::NodeId(n));
    const OpEntry* op = node.erased ? nullptr : op_entry_by_id(node.op);
    if (!op || (!op->custom && op->write_count == WriteCount::kNobody)) continue;
    graph::written_values(graph, node, written);
    for (ValueId id : written)
      if (!op->custom && op->write_count == WriteCount::kDispatcher)
        ++all.by_dispatcher[aliases.of(id)];
      else
        all.by_others[aliases.of(id)] = true;
  }
  return all;
}

void find_written_inputs(Recording& recording) {
  const graph::Graph& graph = recording.recorder.graph();
  if (!graph::writes_anything(graph)) return;
  const graph::AliasClasses aliases(graph);
  const CountedWrites writes = counted_writes(graph, aliases);
  for (uint32_t i = 0; i < recording.inputs.size(); ++i) {
    const InputFake& input = recording.inputs[i];
    const bool by_others = writes.by_others[aliases.of(input.value)];
    const uint32_t count = writes.by_dispatcher[aliases.of(input.value)];
    if (!by_others && count == 0) continue;
    const int64_t counted = input.fake.is_inference() ? count : input.fake._version() - int64_t{input.version};
    if (!by_others && counted < count)
      recording.written_as_data.push_back({i, static_cast<uint32_t>(counted)});
    else
      recording.written.push_back(i);
  }
}

// Such a base has no history and is a tensor of its own, which the graph's values do not tell from the one that it is
// of.
bool is_view_of_data(const at::Tensor& output) {
  FakeImpl* base = output.is_view() ? fake_impl(output._base()) : nullptr;
  return base && base->is_copy();
}

bool is_custom_view(const at::Tensor& output) {
  return output.is_view() && torch::autograd::impl::get_view_autograd_meta(output)->get_creation_meta() ==
                                 torch::autograd::CreationMeta::IN_CUSTOM_FUNCTION;
}

}  // namespace

std::unordered_map<const torch::autograd::Node*, uint32_t> inputs_by_end(const Recording& recording) {
  std::unordered_map<const torch::autograd::Node*, uint32_t> inputs;
  for (uint32_t i = 0; i < recording.inputs.size(); ++i) {
    const InputFake& input = recording.inputs[i];
    if (!input.requires_grad) continue;
    const torch::autograd::Edge edge = torch::autograd::impl::gradient_edge(input.fake);
    if (!edge.is_valid()) continue;
    if (!input.end.is_valid()) input.end = edge;
    inputs.emplace(edge.function.get(), i);
  }
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

  const Values reshaped_before = reshaped_values(graph);
  Values known_roots;
  std::optional<size_t> end_of_writes;
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
    if (is_view_of_data(output)) return refuse("an output is a view of a tensor's data");
    if (spec.data && output.requires_grad()) return refuse("a tensor's data gets a history of its own");
    spec.custom_view = is_custom_view(output);
    const auto [root, first, views, reshaped, root_reshaped, in_place, cut] =
        chain_of(recording, reshaped_before, spec.value);
    if (cut && output.requires_grad()) return refuse("an output is a view that a torch.autograd.Function gave");
    // Data of a tensor is another object over the same value, which keeps its sizes.
    const bool others_see_it = graph.value(root).is_input() || output.requires_grad();
    if (reshaped || reshaped_before.count(spec.value.value) || (views && root_reshaped && others_see_it))
      return refuse("an output is a view of a tensor that is reshaped in place");
    if (!output.requires_grad() || spec.data) continue;
    const auto number = static_cast<uint32_t>(recording.outputs.size() - 1);
    // One that is made without grad mode has no history, though its base makes it one that requires grad.
    if (views && torch::autograd::impl::gradient_edge(output).is_valid())
      recording.views.push_back({number, graph.value(root).is_input(), output});
    if (graph.value(root).is_input()) {
      if (in_place)
        return refuse("a view of a tensor from outside, which may be a view of a leaf, is reshaped in place");
      // Autograd then works out anew what such a view is, and for one of a leaf forgets it.
      if (views && !end_of_writes) end_of_writes = end_of_writes_to_inputs(graph);
      if (views && first.index() + 1 < *end_of_writes)
        return refuse("a view of a tensor from outside is written after");
      if (!is_view_of_input(output, recording))
        return refuse("an output shares memory with a tensor from outside and has a history of its own");
      continue;  // LibTorch's own views of the real tensor have it
    }
    if (views && !output.is_view())
      return refuse("an output is detached from another tensor and has a history of its own");
    if (!known_roots.insert(root.value).second) continue;
    // The base of a view holds the tensor that the view was made of.
    at::Tensor root_fake = views ? at::Tensor(output._base()) : output;
    FakeImpl* root_impl = fake_impl(root_fake);
    if (!root_impl || !root_fake.requires_grad())
      return refuse("an output is a differentiable view of a tensor that is not");
    recording.roots.push_back(root);
    recording.root_fakes.push_back(root_fake);
  }
  if (has_inner_leaf(recording)) return refuse("a tensor made inside of the captured code requires grad");
  find_written_inputs(recording);
  if (recording.training()) recording.joint = graph.clone();
  return true;
}

}  // namespace framejit::torchlib
