// Gradients inside of a trace: the engine goes over the history of the fakes, and what it calls is recorded.
#include <algorithm>

#include "tracer/builtins.h"
#include "tracer/simulator.h"
#include "tracer/transforms.h"

namespace framejit::builtins {
namespace {

// Nodes of other devices than the CPU would run on threads of theirs, where nothing is recorded.
class OnThisThread {
 public:
  explicit OnThisThread(Simulator& sim)
      : set_(imported(sim, "torch._C", "_set_multithreading_enabled")),
        before_(
            sim.check(PyObject_CallObject(imported(sim, "torch._C", "_is_multithreading_enabled").get(), nullptr))) {
    sim.check(PyObject_CallFunctionObjArgs(set_.get(), Py_False, nullptr));
  }
  ~OnThisThread() {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    Ref::steal(PyObject_CallFunctionObjArgs(set_.get(), before_.get(), nullptr));
    PyErr_Restore(type, value, traceback);
  }
  OnThisThread(const OnThisThread&) = delete;
  OnThisThread& operator=(const OnThisThread&) = delete;

 private:
  Ref set_, before_;
};

// Arguments of Variable._execution_engine.run_backward.
struct EngineCall {
  std::vector<PyObject*> roots;
  std::vector<PyObject*> inputs;  // empty: all leaves
  bool keeps_history = true;
  bool makes_history = true;
  bool accumulates = true;
};

std::vector<PyObject*> items_of(PyObject* sequence) {
  if (!PyTuple_Check(sequence) && !PyList_Check(sequence)) return {};
  PyObject** begin = PySequence_Fast_ITEMS(sequence);
  return {begin, begin + PySequence_Fast_GET_SIZE(sequence)};
}

// Fixed arguments: outputs, gradients, retain_graph, create_graph, inputs, allow_unreachable, accumulate_grad.
EngineCall read_call(Simulator& sim, PyObject* callable, CallArgs& args) {
  realise_all(sim, args);
  if (args.positional.size() < 5) sim.stop(StopReason::kUnknownCall, qualified_name(callable));
  EngineCall call;
  call.roots = items_of(args.positional[0].get());
  call.keeps_history = args.positional[2].get() != Py_False;
  call.makes_history = args.positional[3].get() != Py_False;
  call.inputs = items_of(args.positional[4].get());
  for (auto& [name, value] : args.keywords)
    if (PyUnicode_CompareWithASCIIString(name.get(), "accumulate_grad") == 0)
      call.accumulates = value.get() != Py_False;
  return call;
}

[[noreturn]] void refuse(Simulator& sim, const std::string& why) { sim.stop(StopReason::kGradientInside, why); }

const char* why_not_call(Simulator& sim, const EngineCall& call) {
  if (sim.is_in_body() || sim.is_in_backward()) return "it is called in the body of another operator";
  if (sim.transforms().active()) return "a function transform is active";
  if (sim.inference_modes().active()) return "inference mode was entered";
  if (call.accumulates && call.makes_history) return "create_graph=True";
  auto is_fake = [&](PyObject* obj) {
    return sim.is_tensor(obj) && sim.services().host.is_fake(obj) && !sim.services().host.is_level_tensor(obj);
  };
  if (call.roots.empty() || !std::all_of(call.roots.begin(), call.roots.end(), is_fake) ||
      !std::all_of(call.inputs.begin(), call.inputs.end(), is_fake))
    return "of what is no plain tensor";
  return nullptr;
}

// A hook would be called with the gradient.
void require_no_hooks(Simulator& sim, PyObject* fake) {
  const Outside* outside = sim.world().find(fake);
  if (!outside) return;
  if (!sim.services().host.has_no_grad_hooks(outside->real.get())) refuse(sim, "a hook looks at a gradient");
  sim.world().guard(graph::GuardKind::kNoGradHooks, outside->source);
}

// Anomaly mode looks at what each node gives, while it runs.
void require_no_anomaly_mode(Simulator& sim) {
  const Ref question = imported(sim, "torch._C", "is_anomaly_enabled");
  if (sim.rely_on_answer(sim.keep(question)).get() != Py_False) refuse(sim, "anomaly mode is on");
}

SymValue run_engine(Simulator& sim, CallArgs& args) {
  Ref log = imported(sim, "torch.autograd.graph", "log");
  Ref level = sim.check(PyObject_CallMethod(log.get(), "getEffectiveLevel", nullptr));
  if (PyLong_AsLong(level.get()) <= 10) sim.stop(StopReason::kUnknownCall, "the engine logs what it runs");
  Ref engine =
      sim.check(PyObject_GetAttrString(imported(sim, "torch.autograd", "Variable").get(), "_execution_engine"));
  Ref run = sim.check(PyObject_GetAttrString(engine.get(), "run_backward"));
  const OnThisThread here(sim);
  return sim.call_real(run.get(), args);
}

// An error of the engine is the program's to see, with its own tensors in it.
SymValue run_inside(Simulator& sim, CallArgs& args) {
  try {
    return run_engine(sim, args);
  } catch (const PythonRaised&) {
    PyErr_Clear();
    refuse(sim, "it raises an exception");
  }
}

// What LibTorch's node does where gradients end: it takes the new gradient, copies it or adds it to the old one. It
// does so with the fakes, from the state that the program's tensors are in; what it leaves is written when the capture
// ends.
SymValue run_accumulating(Simulator& sim, CallArgs& args, const std::vector<Ref>& leaves) {
  PyObject* const name = interned("grad");
  struct Gradients {
    std::vector<std::pair<PyObject*, PyObject*>> before;
    ~Gradients() {
      PyObject *type, *value, *traceback;
      PyErr_Fetch(&type, &value, &traceback);
      for (auto& [leaf, grad] : before)
        if (PyObject_SetAttr(leaf, interned("grad"), Py_None) < 0) PyErr_Clear();
      PyErr_Restore(type, value, traceback);
    }
  } gradients;
  for (const Ref& leaf : leaves) {
    require_no_hooks(sim, leaf.get());
    SymValue before = sim.load_attr(SymValue(leaf), name);
    PyObject* grad = sim.realise(before);
    if (grad != Py_None && !sim.services().host.is_fake(grad)) refuse(sim, "a gradient of an unusual kind is there");
    sim.check_status(PyObject_SetAttr(leaf.get(), name, grad));
    gradients.before.emplace_back(leaf.get(), grad);
  }
  SymValue result = run_inside(sim, args);
  for (auto& [leaf, before] : gradients.before) {
    SymValue now = sim.from_real(sim.check(PyObject_GetAttr(leaf, name)));
    if (now.get() != before) sim.world().write(leaf, name, now.obj);
  }
  return result;
}

}  // namespace

SymValue call_engine(Simulator& sim, PyObject* callable, CallArgs args) {
  const EngineCall call = read_call(sim, callable, args);
  TensorHost& host = sim.services().host;
  auto is_level_tensor = [&](PyObject* obj) { return sim.is_tensor(obj) && host.is_level_tensor(obj); };
  const bool on_level = !call.roots.empty() && !call.inputs.empty() &&
                        std::all_of(call.roots.begin(), call.roots.end(), is_level_tensor) &&
                        std::all_of(call.inputs.begin(), call.inputs.end(), is_level_tensor);
  if (on_level && !call.accumulates) return run_engine(sim, args);
  if (const char* why = why_not_call(sim, call)) refuse(sim, why);
  require_no_anomaly_mode(sim);
  for (PyObject* input : call.inputs) require_no_hooks(sim, input);
  sim.world().require_apart();  // one object would get the gradients of all in one
  std::string why_not;
  std::vector<Ref> leaves;
  std::vector<Ref>* const wanted = call.accumulates ? &leaves : nullptr;
  if (!host.begin_backward(call.roots, call.inputs, wanted, call.keeps_history, &why_not)) {
    if (PyErr_Occurred()) sim.raise();
    refuse(sim, why_not);
  }
  return call.accumulates ? run_accumulating(sim, args, leaves) : run_inside(sim, args);
}

}  // namespace framejit::builtins
