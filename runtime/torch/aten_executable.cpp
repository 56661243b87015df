#include "runtime/torch/aten_executable.h"

#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/variable.h>

#include <atomic>
#include <optional>

#include "graph/alias.h"
#include "graph/failure.h"
#include "graph/number.h"
#include "runtime/torch/distinct_inputs.h"
#include "runtime/torch/fused_step.h"
#include "runtime/torch/gil.h"
#include "runtime/torch/graph_object.h"
#include "runtime/torch/heap.h"
#include "runtime/torch/py_tensor.h"
#include "runtime/torch/trace_stop.h"
#include "runtime/torch/traced_backward.h"
#include "runtime/torch/undo.h"
#include "runtime/torch/view_replay.h"

// From 3.13 on the declaration is in CPython's internal headers, the function still exported.
extern "C" PyAPI_FUNC(void) _PyTraceback_Add(const char* function, const char* file, int line);

namespace framejit::torchlib {

using graph::ValueId;
using runtime::RunStatus;

namespace {

// Registers of one call. Those of inputs borrow the reference that the caller's object holds.
class Registers {
 public:
  Registers(size_t count, const std::vector<uint32_t>& inputs, PyObject* const* objects) : inputs_(inputs) {
    tensors_.resize(count);
    for (size_t i = 0; i < inputs.size(); ++i) {
      c10::TensorImpl* impl = unpack_tensor(objects[i]).unsafeGetTensorImpl();
      tensors_[inputs[i]] = at::Tensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim(impl));
    }
  }
  ~Registers() {
    for (uint32_t input : inputs_) tensors_[input].unsafeReleaseTensorImpl();
  }
  Registers(const Registers&) = delete;
  Registers& operator=(const Registers&) = delete;
  at::Tensor* data() { return tensors_.data(); }
  at::Tensor& operator[](size_t i) { return tensors_[i]; }

 private:
  const std::vector<uint32_t>& inputs_;
  c10::SmallVector<at::Tensor, 16> tensors_;
};

class AtenExecutable final : public runtime::Executable {
 public:
  AtenExecutable(const graph::Graph& graph, std::shared_ptr<Recording> recording,
                 std::shared_ptr<TrainingProgram> training, OnFailure on_failure, AtenOptions options);

  RunStatus run(PyObject* const* inputs, PyObject** outputs) override;
  size_t output_count() const override { return outputs_.size(); }
  std::vector<const graph::Graph*> backward_graphs() const override {
    return training_ ? training_->backward_graphs() : std::vector<const graph::Graph*>();
  }
  Ref graph_object(std::vector<std::string> sources) const override {
    return copy_of_program(graph_, facts_, outputs_, std::move(sources));
  }

 private:
  void compute(Registers& registers, Plan::Progress& progress) const;
  bool can_be_undone() const;
  bool numbers_raise_late() const;
  RunStatus take_back(const Plan::Progress& progress, const UndoPlan& undo);
  const UndoPlan& undo_where(bool unshared);
  bool serves_shared_inputs();
  torch::autograd::edge_list attach(Registers& registers, PyObject* const* inputs, ViewReplay::Views& views) const;
  void make_outputs(Registers& registers, PyObject* const* inputs, PyObject** outputs) const;
  bool lie_apart(std::optional<DistinctInputs>& distinct, PyObject* const* inputs);
  RunStatus run_without_kernels(PyObject* const* inputs, PyObject** outputs);

  const graph::Graph& graph_;  // the capture's, which lives as long
  OnFailure on_failure_;
  const bool reads_elsewhere_;
  std::shared_ptr<TrainingProgram> training_;
  std::vector<OutputSpec> outputs_;
  ProgramFacts facts_;
  ViewReplay views_;
  Plan plan_;
  std::optional<UndoPlan> undo_;         // where nobody observes a failure, made by the first one
  std::optional<UndoPlan> undo_shared_;  // the same where `unshared_` does not hold, made by the first such call
  std::vector<uint32_t> input_registers_;
  std::vector<uint32_t> output_registers_;
  std::vector<DataWrite> written_as_data_;  // this and the next as in Recording
  std::vector<uint32_t> written_;
  std::vector<std::pair<uint32_t, FreedRoot>> freed_;  // registers, and what they hold
  bool plain_outputs_;                                 // each is an input, or in a register
  // Where what was inferred may be wrong (kernels of other devices than the CPU, answers of Meta kernels, layouts that
  // a pass chose) the first run is held against it, if a run that fails can be taken back: the code runs in the
  // interpreter then.
  std::atomic<bool> is_checked_;
  // Where kernels rest on it that inputs lie apart: that they do, and what runs instead in calls where it does not
  // hold.
  std::optional<DistinctInputs> distinct_;
  // Where the graph writes inputs that the backward may need, or code of the program may handle eager's error about
  // memory that overlaps, or the order of the steps rests on it that inputs lie apart: in calls where another input
  // shares what is written, the code runs in the interpreter; but for that error alone it is taken back if it comes.
  std::optional<DistinctInputs> unshared_;
  std::shared_ptr<Recording> recording_;
  std::unique_ptr<AtenExecutable> without_kernels_;
};

// What is written through `.data` has at the end of this scope the version that the program gives it, unless another of
// the inputs that are written shares its memory.
class KeptVersions {
 public:
  KeptVersions(const std::vector<DataWrite>& as_data, const std::vector<uint32_t>& written, PyObject* const* inputs) {
    for (const DataWrite& write : as_data) {
      const at::Tensor& tensor = unpack_tensor(inputs[write.input]);
      auto shares = [&](uint32_t other) { return unpack_tensor(inputs[other]).is_alias_of(tensor); };
      auto is_counted_too = [&](const DataWrite& other) {
        return other.counted > 0 && other.input != write.input && shares(other.input);
      };
      if (!tensor.is_inference() && std::none_of(written.begin(), written.end(), shares) &&
          std::none_of(as_data.begin(), as_data.end(), is_counted_too))
        versions_.emplace_back(tensor.unsafeGetTensorImpl()->version_counter(), tensor._version() + write.counted);
    }
  }
  ~KeptVersions() {
    for (auto& [counter, version] : versions_) counter.set_version(version);
  }
  KeptVersions(const KeptVersions&) = delete;
  KeptVersions& operator=(const KeptVersions&) = delete;

 private:
  std::vector<std::pair<c10::VariableVersion, int64_t>> versions_;  // counters share their number with the tensor's
};

// Nodes that only make views which ViewReplay makes again.
std::vector<bool> unused_views(const graph::Graph& graph, const ViewReplay& views, const std::vector<ValueId>& keep) {
  std::vector<bool> used(graph.value_count()), skip(graph.node_count());
  for (ValueId id : keep) used[id.index()] = true;
  for (size_t n = graph.node_count(); n-- > 0;) {
    const graph::Node& node = graph.node(graph::NodeId(n));
    bool wanted = !views.nodes()[n];
    for (size_t i = 0; i < node.result_count; ++i) wanted |= used[node.result(i).index()];
    skip[n] = !wanted;
    if (!wanted) continue;
    for (const graph::Operand& operand : node.args())
      graph::for_each_value(operand, [&](ValueId id) { used[id.index()] = true; });
  }
  return skip;
}

bool is_on_cpu(const graph::Graph& graph) {
  for (size_t i = 0; i < graph.value_count(); ++i)
    if (!graph.meta(ValueId(static_cast<uint32_t>(i))).device.is_cpu()) return false;
  return true;
}

AtenExecutable::AtenExecutable(const graph::Graph& graph, std::shared_ptr<Recording> recording,
                               std::shared_ptr<TrainingProgram> training, OnFailure on_failure, AtenOptions options)
    : graph_(graph),
      on_failure_(on_failure),
      reads_elsewhere_(options.reads_elsewhere),
      training_(std::move(training)),
      outputs_(recording->outputs),
      facts_(program_facts(*recording)),
      views_(graph, *recording),
      written_as_data_(recording->written_as_data),
      written_(recording->written) {
  std::vector<ValueId> keep = views_.roots();
  if (training_) {
    keep.insert(keep.end(), recording->roots.begin(), recording->roots.end());
    keep.insert(keep.end(), training_->saved().begin(), training_->saved().end());
    keep.insert(keep.end(), training_->watched().begin(), training_->watched().end());
  }
  for (const FreedRoot& root : recording->freed_roots) keep.push_back(root.value);
  const std::vector<bool> skip = unused_views(graph, views_, keep);
  std::vector<std::shared_ptr<const FusedStep>> fused;
  if (options.kernels && !graph.has_states()) {  // a kernel runs under one state, its operators may have had several
    FusedSteps found = fused_steps(graph, keep, skip, true);
    fused = std::move(found.steps);
    if (!found.apart.empty()) {
      distinct_.emplace(graph, found.apart, recording->recorder.constants(), DistinctInputs::Extent::kElements);
      recording_ = recording;
    }
  }
  const auto outside =
      on_failure_ == OnFailure::kRaise ? graph::OutsideMemory::kMayOverlap : graph::OutsideMemory::kLiesApart;
  plan_ = Plan(graph, keep, recording->recorder.constants(), skip, PlanKind::kBelowAutograd, fused, outside,
               options.kernels ? Numbers::kRounded : Numbers::kToTheBit);
  if (on_failure_ == OnFailure::kRunAgain && numbers_raise_late()) on_failure_ = OnFailure::kUndo;
  if (on_failure_ == OnFailure::kUndo || training_ || reads_elsewhere_ || plan_.rests_on_apart()) {
    const std::vector<ValueId> written = graph::written_inputs(graph);
    const auto extent = training_ ? DistinctInputs::Extent::kStorage : DistinctInputs::Extent::kElements;
    if (!written.empty()) unshared_.emplace(graph, written, recording->recorder.constants(), extent);
  }
  if (on_failure_ == OnFailure::kUndo) undo_.emplace(graph, plan_, UndoOf::kOperators);
  is_checked_ = on_failure_ == OnFailure::kRaise || plan_.empty() || (is_on_cpu(graph) && !options.checks_first_run) ||
                !can_be_undone();
  for (ValueId input : graph.inputs()) input_registers_.push_back(input.value);
  for (const FreedRoot& root : recording->freed_roots) freed_.push_back({plan_.register_of(root.value), root});
  plain_outputs_ = views_.empty();
  for (const OutputSpec& output : outputs_) {
    plain_outputs_ &= !output.data && !output.custom_view;
    output_registers_.push_back(plan_.register_of(output.value));
  }
}

// True where nothing rests on it.
bool AtenExecutable::lie_apart(std::optional<DistinctInputs>& distinct, PyObject* const* inputs) {
  return !distinct || distinct->hold([&](size_t i) -> const at::Tensor& { return unpack_tensor(inputs[i]); });
}

RunStatus AtenExecutable::run_without_kernels(PyObject* const* inputs, PyObject** outputs) {
  if (!without_kernels_)
    without_kernels_ = std::make_unique<AtenExecutable>(graph_, recording_, training_, on_failure_,
                                                        AtenOptions{.reads_elsewhere = reads_elsewhere_});
  return without_kernels_->run(inputs, outputs);
}

void AtenExecutable::compute(Registers& registers, Plan::Progress& progress) const {
  if (plan_.empty()) return;
  AllowThreads no_gil;
  BelowAutograd below;
  plan_.run(registers.data(), progress);
}

// No Python frame runs the user's lines: the traceback names them all the same.
void add_traceback(const graph::Graph& graph, graph::LocationId at) {
  while (at.valid()) {
    const graph::Location& location = graph.location(at);
    _PyTraceback_Add(std::string(location.function).c_str(), std::string(location.file).c_str(), location.line);
    at = location.caller;
  }
}

// What has autograd's history, before views of roots are made: they go on from theirs. See attach_history().
torch::autograd::edge_list AtenExecutable::attach(Registers& registers, PyObject* const* inputs,
                                                  ViewReplay::Views& views) const {
  torch::autograd::edge_list of_views;
  if (training_) {
    std::vector<at::Tensor> tensors;
    for (size_t i = 0; i < input_registers_.size(); ++i) tensors.push_back(unpack_tensor(inputs[i]));
    of_views = attach_history(training_, plan_, tensors.data(), registers.data(), views_, views);
  }
  for (const auto& [at, root] : freed_) {
    std::vector<at::Tensor> tensors;
    for (uint32_t i : root.inputs) tensors.push_back(unpack_tensor(inputs[i]));
    set_freed_history(registers[at], root.operation, tensors);
  }
  return of_views;
}

void AtenExecutable::make_outputs(Registers& registers, PyObject* const* inputs, PyObject** outputs) const {
  std::vector<at::Tensor> tensors;
  ViewReplay::Views views;
  const torch::autograd::edge_list of_views = attach(registers, inputs, views);
  if (!plain_outputs_) tensors = views_.make_all(plan_, registers.data(), views);
  for (size_t i = 0; i < of_views.size(); ++i)
    torch::autograd::impl::set_gradient_edge(tensors[training_->history().views[i].output], of_views[i]);
  for (size_t i = 0; i < tensors.size(); ++i)
    if (outputs_[i].custom_view && tensors[i].is_view())
      torch::autograd::impl::get_view_autograd_meta(tensors[i])
          ->set_creation_meta(torch::autograd::CreationMeta::IN_CUSTOM_FUNCTION);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].input >= 0) {
      outputs[i] = inputs[outputs_[i].input];
      Py_INCREF(outputs[i]);
    } else {
      // The same value may be an output twice.
      outputs[i] = wrap_tensor(plain_outputs_ ? registers[output_registers_[i]] : tensors[i]);
    }
  }
}

bool AtenExecutable::can_be_undone() const {
  const size_t last = plan_.step_count() - 1;
  return undo_ ? undo_->leaves_no_trace(last) : UndoPlan(graph_, plan_, UndoOf::kNothing).leaves_no_trace(last);
}

// Whether what Python raises for a number would come when something has been written that is not taken back.
bool AtenExecutable::numbers_raise_late() const {
  std::optional<UndoPlan> nothing_saved;
  for (size_t step = 0; step < plan_.step_count(); ++step) {
    const graph::Node& node = graph_.node(plan_.step_node(step));
    if (!graph::find_number_op(node.op) || !graph::raises_on_data(graph_, node)) continue;
    if (!nothing_saved) nothing_saved.emplace(graph_, plan_, UndoOf::kNothing);
    if (!nothing_saved->leaves_no_trace(step)) return true;
  }
  return false;
}

const UndoPlan& AtenExecutable::undo_where(bool unshared) {
  if (!unshared && !undo_shared_) undo_shared_.emplace(graph_, plan_, UndoOf::kOverlaps);
  if (unshared && !undo_) undo_.emplace(graph_, plan_, UndoOf::kNothing);
  return unshared ? *undo_ : *undo_shared_;
}

// Whether a call whose inputs share what is written can fail, at any step, without a trace.
bool AtenExecutable::serves_shared_inputs() {
  return on_failure_ == OnFailure::kUndo && !training_ && !reads_elsewhere_ && !plan_.rests_on_apart() &&
         undo_where(false).leaves_no_trace(plan_.step_count() - 1);
}

// After a step has thrown. A Python error is set.
RunStatus AtenExecutable::take_back(const Plan::Progress& progress, const UndoPlan& undo) {
  if (!undo.leaves_no_trace(progress.step)) return RunStatus::kRaised;
  if (!progress.log) return RunStatus::kUndone;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  const bool undone = with_translated_errors([&] {
    BelowAutograd below;
    progress.log->undo();
    return true;
  });
  if (!undone) PyErr_Clear();
  PyErr_Restore(type, value, traceback);
  return undone ? RunStatus::kUndone : RunStatus::kRaised;
}

RunStatus AtenExecutable::run(PyObject* const* inputs, PyObject** outputs) {
  bool apart = true, unshared = true;
  if ((distinct_ || unshared_) && !with_translated_errors([&] {
        unshared = lie_apart(unshared_, inputs);
        apart = lie_apart(distinct_, inputs);
        return true;
      }))
    return RunStatus::kRaised;
  if (!unshared && !serves_shared_inputs()) return RunStatus::kUndone;
  if (!apart) return run_without_kernels(inputs, outputs);
  UndoLog log;
  Plan::Progress progress;
  const UndoPlan* undo = on_failure_ == OnFailure::kUndo ? &undo_where(unshared) : nullptr;
  if (undo && undo->saves()) progress.undo = undo, progress.log = &log;
  if (!is_checked_.load(std::memory_order_relaxed)) progress.expected = &graph_;
  bool computed = false;
  auto body = [&] {
    Registers registers(plan_.register_count(), input_registers_, inputs);
    {
      const KeptVersions kept(written_as_data_, written_, inputs);
      compute(registers, progress);
    }
    computed = true;
    if (progress.expected) is_checked_ = true;
    make_outputs(registers, inputs, outputs);
    return true;
  };
  if (with_translated_errors(body)) return RunStatus::kDone;
  if (computed) return RunStatus::kRaised;
  const RunStatus status =
      on_failure_ == OnFailure::kRaise ? RunStatus::kRaised : take_back(progress, undo_where(unshared));
  if (progress.is_wrong && status == RunStatus::kUndone) return RunStatus::kWrong;
  if (status == RunStatus::kRaised) add_traceback(graph_, graph_.node(plan_.step_node(progress.step)).location);
  return status;
}

}  // namespace

std::unique_ptr<runtime::Executable> make_aten_executable(const graph::Graph& graph,
                                                          std::shared_ptr<Recording> recording,
                                                          std::shared_ptr<TrainingProgram> training,
                                                          OnFailure on_failure, AtenOptions options) {
  if (options.kernels) keep_freed_memory_for(graph);
  return std::make_unique<AtenExecutable>(graph, std::move(recording), std::move(training), on_failure, options);
}

}  // namespace framejit::torchlib
