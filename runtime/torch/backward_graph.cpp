// Recording gradients: LibTorch's engine runs over the autograd graph of the fakes, and what it calls is recorded
// behind the forward graph, then cut off.
#include <ATen/autocast_mode.h>
#include <Python.h>
#include <c10/core/AutogradState.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <string_view>

#include "graph/split.h"
#include "runtime/torch/convert.h"
#include "runtime/torch/gil.h"
#include "runtime/torch/history.h"
#include "runtime/torch/meta_call.h"
#include "runtime/torch/recording.h"
#include "tracer/frame_gate.h"

namespace framejit::torchlib {

using graph::ValueId;

namespace {

// When the scope is left by an error: which node of the forward it came of.
class Unrecordable {
 public:
  Unrecordable(Recording& recording, size_t forward_nodes) : recording_(&recording), forward_nodes_(forward_nodes) {}
  ~Unrecordable() {
    if (!recording_) return;
    if (auto sequence = recording_->recorder.failed_sequence())
      recording_->unrecordable = recording_->recorder.node_of_sequence(*sequence, forward_nodes_);
  }
  Unrecordable(const Unrecordable&) = delete;
  Unrecordable& operator=(const Unrecordable&) = delete;
  void clear() { recording_ = nullptr; }

 private:
  Recording* recording_;
  size_t forward_nodes_;
};

}  // namespace

namespace {

// Nodes on other devices than the CPU would run on threads of theirs, where nothing is recorded.
class OnThisThread {
 public:
  OnThisThread() : previous_(state().get_multithreading_enabled()) { state().set_multithreading_enabled(false); }
  ~OnThisThread() { state().set_multithreading_enabled(previous_); }
  OnThisThread(const OnThisThread&) = delete;
  OnThisThread& operator=(const OnThisThread&) = delete;

 private:
  static c10::AutogradState& state() { return c10::AutogradState::get_tls_state(); }
  bool previous_;
};

// What was recorded behind the forward goes again, however the scope is left.
class BehindForward {
 public:
  explicit BehindForward(Recording& recording)
      : recording_(recording),
        nodes_(joint().node_count()),
        values_(joint().value_count()),
        inputs_(joint().inputs().size()) {
    recording_.recorder.set_ambient_grad_mode(false);  // of the backward, which is no change inside of the forward
  }
  ~BehindForward() {
    recording_.recorder.set_ambient_grad_mode(recording_.state.grad_mode());
    joint().truncate(nodes_, values_, inputs_);
    recording_.recorder.forget_values_from(ValueId(values_));
  }
  BehindForward(const BehindForward&) = delete;
  BehindForward& operator=(const BehindForward&) = delete;
  size_t first_node() const { return nodes_; }
  size_t first_value() const { return values_; }

 private:
  graph::Graph& joint() const { return *recording_.joint; }
  Recording& recording_;
  size_t nodes_, values_, inputs_;
};

// The program's own backwards run on fakes: none of their frames is to be captured.
class LetThrough {
 public:
  explicit LetThrough(FrameGate& gate) : open_(gate) {}

 private:
  HoldGil gil_;
  OpenGate open_;
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
  joint.set_new_state({});  // a backward runs later, in a state of its own
  recording.recorder.set_graph(&joint);
  const BehindForward behind(recording);
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
    std::optional<LetThrough> let_through;
    if (!recording.functions.empty()) let_through.emplace(*gate_for_program_code());
    AllowThreads no_gil;
    Unrecordable unrecordable(recording, behind.first_node());
    OnThisThread here;
    grads = torch::autograd::grad(outputs, inputs, grad_outputs, /*retain_graph=*/true, /*create_graph=*/false,
                                  /*allow_unused=*/true);
    unrecordable.clear();
  }
  std::vector<ValueId> gradients;
  for (const at::Tensor& grad : grads) {
    FakeImpl* fake = grad.defined() ? fake_impl(grad) : nullptr;
    TORCH_CHECK(fake || !grad.defined(), "framejit: a gradient is no tensor of the capture");
    gradients.push_back(fake ? fake->value() : ValueId());
  }
  graph::Split split = graph::split_off(joint, {.name = "backward",
                                                .first_node = behind.first_node(),
                                                .first_value = behind.first_value(),
                                                .parameters = tangent_values,
                                                .outputs = gradients,
                                                .locations = false});
  return {std::move(split.graph), std::move(split.captured), std::move(tangent_roots), std::move(split.outputs)};
}

namespace {

// Whether a backward of this root goes over freed history on its way to these inputs.
bool goes_over_freed(Recording& recording, size_t root, std::vector<uint32_t> inputs) {
  const std::vector<TangentMeta> usual = usual_tangents(recording);
  std::vector<TangentMeta> tangents(usual.size());
  tangents[root] = usual[root];
  recording.differentiable_inputs.swap(inputs);
  bool freed = false;
  try {
    record_backward(recording, tangents);
  } catch (const c10::Error& error) {
    recording.unrecordable = {};
    freed = std::string_view(error.what_without_backtrace()).find(torch::autograd::ERR_BACKWARD_TWICE) !=
            std::string_view::npos;
  }
  recording.differentiable_inputs.swap(inputs);
  return freed;
}

std::vector<uint32_t> reached_inputs(const Recording& recording, const at::Tensor& root) {
  const auto ends = inputs_by_end(recording);
  std::vector<uint32_t> reached;
  for_each_node({root}, [&](const torch::autograd::Node& node) {
    if (auto end = ends.find(&node); end != ends.end()) reached.push_back(end->second);
  });
  std::sort(reached.begin(), reached.end());
  return reached;
}

}  // namespace

void set_freed_roots_apart(Recording& recording) {
  std::vector<ValueId> roots;
  std::vector<at::Tensor> fakes;
  for (size_t i = 0; i < recording.roots.size(); ++i) {
    if (goes_over_freed(recording, i, recording.differentiable_inputs)) {
      FreedRoot freed{recording.roots[i], reached_inputs(recording, recording.root_fakes[i])};
      if (recording.partial_backward.valid())
        for (uint32_t input : freed.inputs)
          if (!goes_over_freed(recording, i, {input})) {
            recording.unrecordable = recording.partial_backward;
            TORCH_CHECK(false, "framejit: a backward with named inputs freed a part of a result's history");
          }
      recording.freed_roots.push_back(std::move(freed));
      continue;
    }
    roots.push_back(recording.roots[i]);
    fakes.push_back(recording.root_fakes[i]);
  }
  recording.roots = std::move(roots);
  recording.root_fakes = std::move(fakes);
}

}  // namespace framejit::torchlib
