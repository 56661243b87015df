// Recording gradients: LibTorch's engine runs over the autograd graph of the fakes, and what it calls is recorded
// behind the forward graph, then cut off.
#include <ATen/autocast_mode.h>
#include <ATen/ops/_efficientzerotensor.h>
#include <Python.h>
#include <c10/core/AutogradState.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/engine.h>
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
using torch::autograd::edge_list;
using torch::autograd::variable_list;

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

// Anomaly mode has the engine look at what operations give, and fakes hold nothing. It is the whole process's, as a
// program that switches it in another thread finds as well.
class NoAnomalyMode {
 public:
  NoAnomalyMode() : enabled_(Mode::is_enabled()), check_nan_(Mode::should_check_nan()) {
    if (enabled_) Mode::set_enabled(false);
  }
  ~NoAnomalyMode() {
    if (enabled_) Mode::set_enabled(true, check_nan_);
  }
  NoAnomalyMode(const NoAnomalyMode&) = delete;
  NoAnomalyMode& operator=(const NoAnomalyMode&) = delete;

 private:
  using Mode = torch::autograd::AnomalyMode;
  const bool enabled_, check_nan_;
};

// A leaf's fake must not get into autocast's cache, where the program's own casts are.
class NoAutocastCache {
 public:
  NoAutocastCache() : enabled_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~NoAutocastCache() { at::autocast::set_autocast_cache_enabled(enabled_); }
  NoAutocastCache(const NoAutocastCache&) = delete;
  NoAutocastCache& operator=(const NoAutocastCache&) = delete;

 private:
  const bool enabled_;
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

// Which operations of autograd are recorded while this lives.
class NotedOperations {
 public:
  explicit NotedOperations(Recorder& recorder) : recorder_(recorder) { recorder_.set_operations(&noted_); }
  ~NotedOperations() { recorder_.set_operations(nullptr); }
  NotedOperations(const NotedOperations&) = delete;
  NotedOperations& operator=(const NotedOperations&) = delete;

  // Those that read values of the forward, or would if these were tensors.
  std::vector<const torch::autograd::Node*> reading(const graph::Graph& joint, size_t first_value,
                                                    const std::vector<ValueId>& tangents) const {
    std::vector<const torch::autograd::Node*> found;
    for (const auto& [node, operation] : noted_) {
      bool reads = false;
      for (const graph::Operand& operand : joint.node(node).args())
        graph::for_each_value(operand, [&](ValueId value) {
          const bool is_tangent = std::find(tangents.begin(), tangents.end(), value) != tangents.end();
          reads = reads || (!is_tangent && (value.index() < first_value || joint.value(value).is_input()));
        });
      if (operation && (reads || saves_tensors(*operation)) && (found.empty() || found.back() != operation))
        found.push_back(operation);
    }
    return found;
  }

 private:
  Recorder& recorder_;
  Recorder::Operations noted_;
};

class NotedOrigins {
 public:
  NotedOrigins(Recorder& recorder, Recorder::Origins* origins) : recorder_(recorder) { recorder_.set_origins(origins); }
  ~NotedOrigins() { recorder_.set_origins(nullptr); }
  NotedOrigins(const NotedOrigins&) = delete;
  NotedOrigins& operator=(const NotedOrigins&) = delete;

 private:
  Recorder& recorder_;
};

at::Tensor zeros_like(const graph::TensorMeta& meta) {
  return at::_efficientzerotensor(to_array(meta.sizes),
                                  at::TensorOptions().dtype(from_dtype(meta.dtype)).device(from_device(meta.device)));
}

}  // namespace

TangentMeta usual_tangent(const at::Tensor& root) {
  TangentMeta tangent;
  tangent.defined = true;
  tangent.meta = meta_of(*root.unsafeGetTensorImpl());
  tangent.meta.storage_offset = 0;
  if (!tangent.meta.is_non_overlapping_and_dense())
    tangent.meta.strides = graph::contiguous_strides(tangent.meta.sizes);
  return tangent;
}

BackwardGraph record_backward(Recording& recording, const edge_list& from, const std::vector<TangentMeta>& tangents,
                              const edge_list& to) {
  graph::Graph& joint = *recording.joint;
  joint.set_new_state({});  // a backward runs later, in a state of its own
  recording.recorder.set_graph(&joint);
  const BehindForward behind(recording);
  Recorder::Active active(&recording.recorder);

  edge_list begin;
  variable_list begin_gradients;
  std::vector<uint32_t> tangent_numbers;
  std::vector<ValueId> tangent_values;
  for (size_t i = 0; i < tangents.size(); ++i) {
    if (!tangents[i].defined) continue;
    begin.push_back(from[i]);
    if (tangents[i].zero) {
      begin_gradients.push_back(zeros_like(tangents[i].meta));
      continue;
    }
    begin_gradients.push_back(recording.recorder.add_input(tangents[i].meta));
    tangent_values.push_back(fake_impl(begin_gradients.back())->value());
    tangent_numbers.push_back(static_cast<uint32_t>(i));
  }
  variable_list grads(to.size());
  NotedOperations noted(recording.recorder);
  Recorder::Origins origins;
  if (!to.empty() && !begin.empty()) {
    std::optional<LetThrough> let_through;
    if (!recording.functions.empty()) let_through.emplace(*gate_for_program_code());
    AllowThreads no_gil;
    Unrecordable unrecordable(recording, behind.first_node());
    OnThisThread here;
    const NoAnomalyMode no_anomaly_mode;
    const NoAutocastCache no_autocast_cache;
    const NotedOrigins noted_origins(recording.recorder, &origins);
    grads =
        torch::autograd::Engine::get_default_engine().execute(begin, begin_gradients, /*keep_graph=*/true,
                                                              /*create_graph=*/false, /*accumulate_grad=*/false, to);
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
  return {std::move(split.graph),   std::move(split.captured),
          std::move(origins),       std::move(tangent_numbers),
          std::move(split.outputs), noted.reading(joint, behind.first_value(), tangent_values)};
}

namespace {

// Whether a backward of this root goes over freed history on its way to these inputs.
bool goes_over_freed(Recording& recording, const at::Tensor& root, const std::vector<uint32_t>& inputs) {
  edge_list to;
  for (uint32_t input : inputs) to.push_back(torch::autograd::impl::gradient_edge(recording.inputs[input].fake));
  try {
    record_backward(recording, {torch::autograd::impl::gradient_edge(root)}, {usual_tangent(root)}, to);
  } catch (const c10::Error& error) {
    recording.unrecordable = {};
    return std::string_view(error.what_without_backtrace()).find(torch::autograd::ERR_BACKWARD_TWICE) !=
           std::string_view::npos;
  }
  return false;
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
    if (goes_over_freed(recording, recording.root_fakes[i], recording.differentiable_inputs)) {
      FreedRoot freed{recording.roots[i], reached_inputs(recording, recording.root_fakes[i]),
                      torch::autograd::impl::gradient_edge(recording.root_fakes[i]).function->name()};
      if (recording.partial_backward.valid())
        for (uint32_t input : freed.inputs)
          if (!goes_over_freed(recording, recording.root_fakes[i], {input})) {
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
