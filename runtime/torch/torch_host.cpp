#include "runtime/torch/torch_host.h"

#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/version.h>

#include <deque>
#include <mutex>

#include "graph/expression.h"
#include "graph/passes/cse.h"
#include "graph/passes/dce.h"
#include "graph/recompute.h"
#include "runtime/torch/aten_executable.h"
#include "runtime/torch/cast_inputs.h"
#include "runtime/torch/convert.h"
#include "runtime/torch/device_context.h"
#include "runtime/torch/environment.h"
#include "runtime/torch/frozen_executable.h"
#include "runtime/torch/fx_executable.h"
#include "runtime/torch/input_fake.h"
#include "runtime/torch/meta_call.h"
#include "runtime/torch/number_scalar.h"
#include "runtime/torch/py_tensor.h"
#include "runtime/torch/recording.h"
#include "runtime/torch/replaced_executable.h"
#include "runtime/torch/trace_stop.h"
#include "runtime/torch/traced_backward.h"

namespace framejit::torchlib {
namespace {

// The recording under way on this thread, and the one that finish() left for compile().
struct ThreadSessions {
  std::shared_ptr<Recording> recording;
  std::optional<Recorder::Active> active;
  std::shared_ptr<Recording> finished;
  std::shared_ptr<TrainingProgram> training;
  graph::Capture* capture = nullptr;
  // As they were when the recording began: the recording runs without modes.
  std::vector<Ref> device_contexts;
  uint64_t global_state = 0;
  uint64_t state_before_recomputed = 0;
  // Those that the trace has entered, each with the state before it.
  std::deque<std::pair<uint64_t, c10::InferenceMode>> inference_modes;
};

ThreadSessions& sessions() {
  static thread_local ThreadSessions instance;
  return instance;
}

class TorchRuntime final : public runtime::TensorRuntime {
 public:
  bool is_tensor(PyObject* obj) override { return is_tensor_object(obj); }

  bool is_fake(PyObject* obj) override {
    const auto& recording = sessions().recording;
    if (!recording || !is_tensor_object(obj)) return false;
    Ref below = below_levels(obj);
    FakeImpl* fake = below ? fake_impl(unpack_tensor(below.get())) : nullptr;
    return fake && fake->owner() == &recording->recorder;
  }

  bool is_level_tensor(PyObject* obj) override { return is_of_level(unpack_tensor(obj)) && is_fake(obj); }

  const char* why_not_capturable(PyObject* tensor) override {
    if (const char* why = why_not_under_global_state(sessions().recording != nullptr)) return why;
    return why_not_input(tensor);
  }

  void set_gate(FrameGate* gate) override { set_meta_call_gate(gate); }

  static std::optional<c10::OperatorHandle> find_operator(const std::string& name) {
    const size_t dot = name.find('.');
    return c10::Dispatcher::singleton().findSchema(
        {name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
  }

  bool has_operator(const std::string& name) override { return find_operator(name).has_value(); }

  std::string why_not_decomposed(const std::string& name) override {
    const std::optional<c10::OperatorHandle> found = find_operator(name);
    const char* why = found ? why_not_composite(op_entry(*found)) : nullptr;
    return why ? why : "";
  }

  const char* why_not_now() override { return why_not_under_global_state(); }

  void begin(graph::Capture* capture, const RefusedNode& refused) override {
    ThreadSessions& session = sessions();
    session.finished.reset();
    session.training.reset();
    session.recording = std::make_shared<Recording>(&capture->graph);
    session.recording->recorder.set_ambient_grad_mode(session.recording->state.grad_mode());
    session.recording->recorder.set_refused(refused.id, refused.why);
    session.capture = capture;
    session.global_state = torchlib::global_state();
    session.device_contexts.clear();
    if (has_only_device_contexts()) {
      session.device_contexts = torchlib::device_contexts();
      set_device_contexts_aside();
    }
    session.active.emplace(&session.recording->recorder);
  }

  void end() override {
    ThreadSessions& session = sessions();
    if (!session.recording) return;
    while (!session.inference_modes.empty()) session.inference_modes.pop_back();
    session.active.reset();
    session.recording->state.restore();
    session.recording.reset();
  }

  Ref make_input(PyObject* real, graph::SourceId) override {
    Recording& recording = *sessions().recording;
    PyObject* result = nullptr;
    with_translated_errors([&] {
      result = make_input_fake(recording, real);
      return result != nullptr;
    });
    return Ref::steal(result);
  }

  graph::TensorFacts facts(PyObject* real) override {
    const at::Tensor& tensor = unpack_tensor(real);
    graph::TensorFacts facts;
    facts.meta = meta_of(*tensor.unsafeGetTensorImpl());
    facts.meta.requires_grad = tensor.requires_grad();
    facts.key_set = tensor.key_set().raw_repr();
    facts.is_leaf = tensor.is_leaf();
    return facts;
  }

  bool keeps_casts() override {
    Recording& recording = *sessions().recording;
    return recording.casts_emptied |= recording.state.in_autocast_region();
  }
  bool finds_old_casts() override { return sessions().recording->finds_old_casts(); }
  bool has_other_autocast() override { return sessions().recording->state.has_other_autocast(); }
  uint64_t global_state() override { return sessions().recording ? sessions().global_state : torchlib::global_state(); }
  std::vector<Ref> device_contexts() override { return std::move(sessions().device_contexts); }

  void set_location(graph::LocationId location) override { sessions().recording->recorder.set_location(location); }

  void enter_inference_mode(bool on) override {
    sessions().inference_modes.emplace_back(torchlib::global_state(), on);
    note_state();
  }

  bool leave_inference_mode() override {
    auto& modes = sessions().inference_modes;
    const uint64_t before = modes.back().first;
    modes.pop_back();
    note_state();
    return torchlib::global_state() == before;
  }

  void note_state() override { sessions().recording->recorder.note_state(); }

  bool take_stop(std::string* stop_reason_name, std::string* detail) override {
    return PyErr_Occurred() && take_trace_stop(stop_reason_name, detail);
  }

  std::vector<Ref> begin_body(const std::vector<PyObject*>& like) override {
    Recording& recording = *sessions().recording;
    return wrapped([&] { return recording.bodies.begin(recording.recorder, unpacked(like)); });
  }

  bool end_body(const std::vector<PyObject*>& outputs, std::string* why_not) override {
    Recording& recording = *sessions().recording;
    bool ended = false;
    return with_translated_errors([&] {
             ended = recording.bodies.end(recording.recorder, unpacked(outputs), why_not);
             return true;
           }) &&
           ended;
  }

  std::vector<Ref> record_cond(PyObject* predicate, std::string* why_not) override {
    Recording& recording = *sessions().recording;
    return wrapped([&] { return recording.bodies.cond(recording.recorder, unpack_tensor(predicate), why_not); });
  }

  std::vector<Ref> record_while_loop(const std::vector<PyObject*>& carried, std::string* why_not) override {
    Recording& recording = *sessions().recording;
    return wrapped([&] { return recording.bodies.while_loop(recording.recorder, unpacked(carried), why_not); });
  }

  Ref number_of(PyObject* fake) override {
    return wrapped_one([&] { return sessions().recording->recorder.number_of(unpack_tensor(fake)); });
  }

  Ref compute_number(graph::NumberOp op, const std::vector<NumberOperand>& operands) override {
    std::vector<graph::Operand> values;
    values.reserve(operands.size());
    for (const NumberOperand& operand : operands)
      values.push_back(operand.number ? graph::Operand::value(value_of(operand.number))
                                      : graph::Operand::real(operand.known));
    return wrapped_one([&] { return sessions().recording->recorder.add_number(op, values); });
  }

  Ref number_input() override {
    return wrapped_one([&] { return make_number_input(*sessions().recording); });
  }

  Ref number_object() override { return make_number_object(); }

  Ref number_argument(PyObject* number) override {
    sessions().recording->recorder.note_number_argument();
    return make_number_scalar(value_of(number));
  }

  size_t begin_recomputed() override {
    Recording& recording = *sessions().recording;
    graph::Graph& graph = recording.recorder.graph();
    if (++recording.recomputed == 1) recording.first_recomputed = graph::NodeId(graph.node_count());
    graph.set_new_recompute(recording.recomputed);
    sessions().state_before_recomputed = torchlib::global_state();
    return graph.node_count();
  }

  bool end_recomputed(size_t first, bool same_random, std::string* why_not) override {
    graph::Graph& graph = sessions().recording->recorder.graph();
    graph.set_new_recompute(0);
    if (torchlib::global_state() != sessions().state_before_recomputed)
      return *why_not = "it leaves grad mode or other state changed", false;
    const auto why = graph::why_not_recompute(graph, graph::NodeId(first), same_random);
    if (why) *why_not = *why;
    return !why;
  }

  void begin_function() override {
    Recording& recording = *sessions().recording;
    recording.functions.begin(recording.recorder);
  }

  bool end_function(const FunctionCall* call, std::string* why_not) override {
    Recording& recording = *sessions().recording;
    return with_translated_errors([&] { return recording.functions.end(recording.recorder, call, why_not); });
  }

  std::vector<Ref> begin_gradient(std::string* why_not) override {
    Recording& recording = *sessions().recording;
    return wrapped([&] { return recording.functions.begin_gradient(recording.recorder, recording.bodies, why_not); });
  }

  bool end_gradient(const std::vector<PyObject*>& results, std::vector<FrozenRead> reads,
                    std::string* why_not) override {
    Recording& recording = *sessions().recording;
    return with_translated_errors([&] {
      return recording.functions.end_gradient(recording.recorder, recording.bodies, results, std::move(reads), why_not);
    });
  }

  bool begin_backward(const std::vector<PyObject*>& roots, const std::vector<PyObject*>& inputs,
                      std::vector<Ref>* leaves, bool keeps_history, std::string* why_not) override {
    Recording& recording = *sessions().recording;
    const std::vector<at::Tensor> tensors = unpacked(roots), named = unpacked(inputs);
    if (const char* why = why_not_backward(recording, tensors, named)) return *why_not = why, false;
    recording.history_freed |= !keeps_history;
    if (++recording.backwards == 1) recording.first_backward = graph::NodeId(recording.recorder.graph().node_count());
    if (leaves && !named.empty() && !keeps_history && !recording.partial_backward.valid()) {
      if (recording.recorder.refuses_next()) return *why_not = "it frees a part of a result's history", false;
      recording.partial_backward = graph::NodeId(recording.recorder.graph().node_count());
    }
    if (!leaves) return true;
    *leaves = wrapped([&] {
      return named.empty() ? leaves_of(recording, tensors, why_not) : named_leaves(recording, named, why_not);
    });
    return why_not->empty() && !PyErr_Occurred();
  }

  bool has_no_grad_hooks(PyObject* tensor) override { return torchlib::has_no_grad_hooks(tensor); }

  graph::ValueId value_of(PyObject* fake) override { return fake_impl(unpack_tensor(fake))->value(); }

  bool finish(const std::vector<PyObject*>& outputs, std::string* why_not, RefusedNode* refused) override {
    ThreadSessions& session = sessions();
    session.recording->recorder.set_refused({}, {});
    std::vector<at::Tensor> fakes;
    fakes.reserve(outputs.size());
    for (PyObject* output : outputs) fakes.push_back(unpack_tensor(output));
    bool finished = false;
    bool ran = with_translated_errors([&] {
      *refused = take_cast_inputs(*session.recording, *session.capture, fakes);
      if (refused->id.valid()) return *why_not = refused->why, true;
      finished = finish_recording(*session.recording, fakes, why_not);
      if (finished) finish_graph(session);
      return true;
    });
    if (!ran) {
      take_error(why_not);
      refused->id = session.recording->unrecordable;
      // Eager may be able to, with tensors that are saved in the second run alone.
      if (!refused->id.valid()) refused->id = session.recording->first_recomputed;
    } else if (session.recording->inner_leaf.valid()) {
      *refused = {session.recording->inner_leaf, *why_not};
    } else if (!finished && !refused->id.valid()) {
      refused->id = session.recording->functions.first_node();
    }
    session.recording->recorder.set_graph(&session.capture->graph);
    if (ran && finished) session.finished = session.recording;
    return ran && finished;
  }

  bool has_history() override { return sessions().training != nullptr; }

  Ref tensor_of_number(PyObject* number, Ref spare) override {
    const double value = PyFloat_AS_DOUBLE(number);
    if (spare && is_held_once(spare.get())) {
      *unpack_tensor(spare.get()).mutable_data_ptr<double>() = value;
      return spare;
    }
    return wrapped_one([&] { return number_tensor(value).toTensor(); });
  }

  std::unique_ptr<runtime::Executable> compile(graph::Capture& capture, PyObject* backend,
                                               std::string* why_not) override {
    ThreadSessions& session = sessions();
    FJ_CHECK(session.finished, "compile() without a finished recording on this thread");
    std::unique_ptr<runtime::Executable> result;
    with_translated_errors([&] {
      const std::shared_ptr<Recording> recording = session.finished;
      result = executable_for(capture, backend, why_not);
      if (result && (!recording->casts.empty() || !recording->cast_once.empty()))
        result = with_casts(capture.graph, *recording, std::move(result));
      return true;
    });
    session.finished.reset();
    session.training.reset();
    return result;
  }

  runtime::TensorGuards guards() override {
    return {&pack_tensor_facts,           &tensor_matches,        &take_images, &first_mismatch,
            &torchlib::has_no_grad_hooks, &torchlib::global_state};
  }

 private:
  static std::unique_ptr<runtime::Executable> executable_for(graph::Capture& capture, PyObject* backend,
                                                             std::string* why_not) {
    ThreadSessions& session = sessions();
    const bool kernels = backend && PyUnicode_Check(backend);
    if (backend && !kernels) return make_fx_executable(capture.graph, *session.finished, backend, why_not);
    const Recorder& recorder = session.finished->recorder;
    const bool observed = capture.has_handlers || !capture.effects.empty() || recorder.has_mixed_grad_mode() ||
                          capture.graph.has_states();
    if (session.training) {
      session.training->choose_saved(capture.graph, kernels && !capture.graph.has_states());
      set_outputs(capture.graph, *session.finished, session.training.get());
    }
    if (kernels && !capture.graph.has_states() && !recorder.has_mixed_grad_mode()) simplify(capture.graph);
    const OnFailure on_failure = observed ? OnFailure::kUndo : OnFailure::kRunAgain;
    std::unique_ptr<runtime::Executable> result;
    if (!session.training && !capture.frozen_inputs.empty())
      result = make_frozen_executable(capture, session.finished, on_failure);
    if (!result && !session.training && kernels)
      result = make_replaced_executable(capture, session.finished, on_failure);
    if (result) return result;
    const bool asked_meta = recorder.asked_meta();
    return make_aten_executable(capture.graph, std::move(session.finished), std::move(session.training), on_failure,
                                {.kernels = kernels, .checks_first_run = asked_meta});
  }

  // Its outputs are all that somebody sees.
  static void simplify(graph::Graph& graph) {
    graph::merge_common_subexpressions(graph, {});
    graph::eliminate_dead_code(graph);
  }

  static bool is_held_once(PyObject* object) {
    const at::Tensor& tensor = unpack_tensor(object);
    return Py_REFCNT(object) == 1 && tensor.use_count() == 1 && tensor.storage().use_count() == 1;
  }

  static std::vector<at::Tensor> unpacked(const std::vector<PyObject*>& objects) {
    std::vector<at::Tensor> tensors;
    tensors.reserve(objects.size());
    for (PyObject* object : objects) tensors.push_back(unpack_tensor(object));
    return tensors;
  }

  // Null where the tensor is undefined, or an error is set.
  template <class F>
  static Ref wrapped_one(F&& make) {
    Ref object;
    with_translated_errors([&] {
      at::Tensor tensor = make();
      if (tensor.defined()) object = Ref::steal(wrap_tensor(std::move(tensor)));
      return object || !PyErr_Occurred();
    });
    return object;
  }

  // Empty where an error is set.
  template <class F>
  static std::vector<Ref> wrapped(F&& make) {
    std::vector<Ref> objects;
    const bool made = with_translated_errors([&] {
      for (at::Tensor& tensor : make()) {
        const bool defined = tensor.defined();
        objects.push_back(defined ? Ref::steal(wrap_tensor(std::move(tensor))) : Ref());
        if (defined && !objects.back()) return false;
      }
      return true;
    });
    if (!made) objects.clear();
    return objects;
  }

  static void finish_graph(ThreadSessions& session) {
    Recording& recording = *session.recording;
    graph::Graph& graph = recording.recorder.graph();  // recording a backward turns to another
    if (recording.training() && recording.history_freed) set_freed_roots_apart(recording);
    if (recording.training()) session.training = std::make_shared<TrainingProgram>(session.recording);
    set_outputs(graph, recording, session.training.get());
  }

  // Those that passes must keep: the program's, then what the backward needs.
  static void set_outputs(graph::Graph& graph, const Recording& recording, const TrainingProgram* training) {
    std::vector<graph::ValueId> values;
    values.reserve(recording.outputs.size());
    for (const OutputSpec& output : recording.outputs) values.push_back(output.value);
    for (const FreedRoot& root : recording.freed_roots) values.push_back(root.value);
    if (training) {
      values.insert(values.end(), recording.roots.begin(), recording.roots.end());
      values.insert(values.end(), training->saved().begin(), training->saved().end());
      values.insert(values.end(), training->watched().begin(), training->watched().end());
    }
    graph.set_outputs(values);
  }

  static void take_error(std::string* why_not) {
    std::string reason, detail;
    if (take_trace_stop(&reason, &detail)) {
      *why_not = "the backward cannot be recorded: " + detail;
      return;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    Ref owned_type = Ref::steal(type), owned_value = Ref::steal(value), owned_traceback = Ref::steal(traceback);
    Ref text = Ref::steal(value ? PyObject_Str(value) : nullptr);
    const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    PyErr_Clear();
    *why_not = std::string("the backward cannot be recorded: ") + (utf8 ? utf8 : "unknown error");
  }
};

}  // namespace

runtime::TensorRuntime* torch_runtime() {
  static TorchRuntime* instance = [] {
    graph::set_torch_release(100 * TORCH_VERSION_MAJOR + TORCH_VERSION_MINOR);
    graph::ask_of_onednn(&has_onednn_kernel, &gelu_loses_infinity);
    return new TorchRuntime;
  }();
  return trace_stop_type() ? instance : nullptr;
}

}  // namespace framejit::torchlib
