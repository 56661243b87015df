// Recording gradients: LibTorch's engine runs over the autograd graph of the fakes, and what it calls is recorded
// behind the forward graph, then cut off.
#include <ATen/autocast_mode.h>
#include <Python.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include "runtime/torch/convert.h"
#include "runtime/torch/gil.h"
#include "runtime/torch/recording.h"

namespace framejit::torchlib {

using graph::Operand;
using graph::ValueId;

namespace {

// Copies the nodes from `first` on into a graph of their own. Values of the forward become inputs.
class Splitter {
 public:
  Splitter(const graph::Graph& joint, size_t forward_nodes, size_t forward_values)
      : joint_(joint), forward_nodes_(forward_nodes), forward_values_(forward_values) {}

  BackwardGraph run(const std::vector<ValueId>& tangent_values, const std::vector<uint32_t>& tangents,
                    const std::vector<ValueId>& gradients) {
    // Saved values come first, so they are looked for before anything is built.
    for (size_t n = forward_nodes_; n < joint_.node_count(); ++n)
      for (const Operand& operand : joint_.node(graph::NodeId(n)).args())
        graph::for_each_value(operand, [&](ValueId value) { note_saved(value); });
    for (ValueId value : gradients)
      if (value.valid()) note_saved(value);
    for (ValueId value : tangent_values) mapped_[value.value] = out_.graph.add_input(joint_.meta(value));
    out_.tangents = tangents;
    for (size_t n = forward_nodes_; n < joint_.node_count(); ++n) copy(joint_.node(graph::NodeId(n)));
    std::vector<ValueId> outputs;
    for (ValueId value : gradients) {
      out_.gradients.push_back(value.valid() ? mapped_.at(value.value) : ValueId());
      if (value.valid()) outputs.push_back(out_.gradients.back());
    }
    out_.graph.set_outputs(outputs);
    return std::move(out_);
  }

 private:
  void note_saved(ValueId value) {
    if (value.index() >= forward_values_ || mapped_.count(value.value)) return;
    mapped_[value.value] = out_.graph.add_input(joint_.meta(value));
    out_.saved.push_back(value);
  }

  void copy(const graph::Node& node) {
    std::vector<Operand> operands(node.args().begin(), node.args().end());
    std::vector<std::vector<ValueId>> lists;
    for (Operand& operand : operands) {
      if (operand.is_value()) {
        operand = Operand::value(mapped_.at(operand.as_value().value));
      } else if (operand.is(Operand::Kind::kValues)) {
        std::vector<ValueId>& list = lists.emplace_back();
        for (ValueId id : operand.as_values()) list.push_back(id.valid() ? mapped_.at(id.value) : ValueId());
      }
    }
    size_t next_list = 0;
    for (Operand& operand : operands)
      if (operand.is(Operand::Kind::kValues)) operand = Operand::values(lists[next_list++]);
    std::vector<graph::ResultMeta> results;
    for (size_t i = 0; i < node.result_count; ++i) results.push_back(joint_.value(node.result(i)).result);
    const graph::Node& made = out_.graph.node(out_.graph.add_node(node.op, operands, results));
    for (size_t i = 0; i < node.result_count; ++i) mapped_[node.result(i).value] = made.result(i);
  }

  const graph::Graph& joint_;
  size_t forward_nodes_;
  size_t forward_values_;
  BackwardGraph out_;
  std::unordered_map<uint32_t, ValueId> mapped_;
};

}  // namespace

std::vector<TangentMeta> usual_tangents(const Recording& recording) {
  std::vector<TangentMeta> tangents;
  for (const at::Tensor& root : recording.root_fakes) {
    TangentMeta& tangent = tangents.emplace_back();
    tangent.defined = true;
    tangent.meta = meta_of(*root.unsafeGetTensorImpl());
    tangent.meta.storage_offset = 0;
    if (!tangent.meta.is_non_overlapping_and_dense())
      tangent.meta.strides = graph::contiguous_strides(tangent.meta.sizes);
  }
  return tangents;
}

BackwardGraph record_backward(Recording& recording, const std::vector<TangentMeta>& tangents) {
  graph::Graph& joint = *recording.joint;
  size_t node_count = joint.node_count(), value_count = joint.value_count(), input_count = joint.inputs().size();
  recording.recorder.set_graph(&joint);
  Recorder::Active active(&recording.recorder);

  std::vector<at::Tensor> outputs, grad_outputs, inputs;
  std::vector<uint32_t> tangent_roots;
  std::vector<ValueId> tangent_values;
  for (size_t i = 0; i < tangents.size(); ++i) {
    if (!tangents[i].defined) continue;
    outputs.push_back(recording.root_fakes[i]);
    grad_outputs.push_back(recording.recorder.add_input(tangents[i].meta));
    tangent_values.push_back(fake_impl(grad_outputs.back())->value());
    tangent_roots.push_back(static_cast<uint32_t>(i));
  }
  for (uint32_t i : recording.differentiable_inputs) inputs.push_back(recording.inputs[i].fake);
  std::vector<at::Tensor> grads;
  {
    AllowThreads no_gil;
    recording.recorder.set_ambient_grad_mode(false);  // of the backward, which is no change inside of the forward
    grads = torch::autograd::grad(outputs, inputs, grad_outputs, /*retain_graph=*/true, /*create_graph=*/false,
                                  /*allow_unused=*/true);
  }
  recording.recorder.set_ambient_grad_mode(recording.state.grad_mode());
  std::vector<ValueId> gradients;
  for (const at::Tensor& grad : grads) {
    FakeImpl* fake = grad.defined() ? fake_impl(grad) : nullptr;
    TORCH_CHECK(fake || !grad.defined(), "framejit: a gradient is no tensor of the capture");
    gradients.push_back(fake ? fake->value() : ValueId());
  }
  BackwardGraph backward = Splitter(joint, node_count, value_count).run(tangent_values, tangent_roots, gradients);
  joint.truncate(node_count, value_count, input_count);
  recording.recorder.forget_values_from(ValueId(value_count));
  return backward;
}

}  // namespace framejit::torchlib
