// A call of a torch.autograd.Function that makes a node of autograd's graph: the forward is followed as part of the
// graph, the backward is followed too, to see that it may be recorded.
#include <algorithm>
#include <array>

#include "tracer/builtins.h"
#include "tracer/callables.h"
#include "tracer/library.h"

namespace framejit {

namespace {

// Of tensors, whatever their strides are and whoever holds them.
constexpr std::array<std::string_view, 27> kFrozenAnswers = {
    "shape",      "size",          "dim",
    "ndim",       "ndimension",    "numel",
    "nelement",   "dtype",         "device",
    "layout",     "is_cuda",       "is_cpu",
    "is_meta",    "itemsize",      "nbytes",
    "__len__",    "element_size",  "is_floating_point",
    "is_tensor",  "is_complex",    "is_signed",
    "is_mps",     "requires_grad", "result_type",
    "get_device", "promote_types", "is_grad_enabled",
};

bool holds_tensors(const Simulator& sim, PyObject* obj) {
  if (sim.is_tensor(obj)) return true;
  if (!PyTuple_Check(obj) && !PyList_Check(obj)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(obj); ++i)
    if (!sim.is_tensor(PySequence_Fast_GET_ITEM(obj, i))) return false;
  return PySequence_Fast_GET_SIZE(obj) > 0;
}

}  // namespace

void Simulator::note_frozen(FrozenRead::Kind kind, PyObject* holder, PyObject* name, PyObject* found) {
  for (const FrozenRead& read : *frozen_reads_)
    if (read.kind == kind && read.holder.get() == holder && read.name.get() == name) return;
  auto held = [](PyObject* obj) { return obj ? Ref::borrow(obj) : Ref(); };
  frozen_reads_->push_back({kind, held(holder), held(name), held(found)});
}

void Simulator::require_frozen_answer(std::string_view name, PyObject* answer) {
  if (!answer || answer == Py_None || holds_tensors(*this, answer)) return;
  if (std::find(kFrozenAnswers.begin(), kFrozenAnswers.end(), name) == kFrozenAnswers.end())
    refuse_in_body(fmt::format("it asks for '{}'", name));
}

void Simulator::seal_context(PyObject* context) {
  sealed_contexts_.insert(keep(Ref::borrow(context)));
  note_native_origin(context);
}

namespace builtins {

namespace {

class GradModeOff {
 public:
  explicit GradModeOff(Simulator& sim) { set(sim, Py_False); }
  ~GradModeOff() {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    Ref::steal(PyObject_CallFunctionObjArgs(library().set_grad_enabled, Py_True, nullptr));
    PyErr_Restore(type, value, traceback);
  }
  GradModeOff(const GradModeOff&) = delete;
  GradModeOff& operator=(const GradModeOff&) = delete;

 private:
  static void set(Simulator& sim, PyObject* on) {
    sim.check(PyObject_CallFunctionObjArgs(library().set_grad_enabled, on, nullptr));
  }
};

[[noreturn]] void refuse(Simulator& sim, PyObject* function, const std::string& why) {
  sim.stop(StopReason::kUnsupportedTensor,
           fmt::format("{} where gradients are recorded: {}", qualified_name(function), why));
}

const char* why_not_state(Simulator& sim) {
  if (sim.is_in_body()) return "it is called in the body of another operator";
  if (sim.transforms().active()) return "a function transform is active";
  if (sim.inference_modes().active()) return "inference mode was entered";
  if (sim.device_contexts().concerned()) return "a default device is set";
  return nullptr;
}

// What of the class changes how its backward is called.
const char* why_not_class(Simulator& sim, const SymValue& function) {
  auto is_set = [&](const char* name) {
    std::optional<SymValue> value = sim.find_attr(function, interned(name));
    return value && sim.realise(*value) != Py_False;
  };
  if (is_set("clear_saved_tensors_on_access")) return "its saved tensors go when they are read";
  if (is_set("boxed_grads_call")) return "its gradients come in a list";
  const SymValue base = SymValue::borrow(library().autograd_function);
  if (sim.load_attr(function, "vjp").get() != sim.load_attr(base, "vjp").get()) return "it has a vjp";
  return nullptr;
}

// The attributes that the forward gave it: what a backward reads of them is the same each time.
bool has_plain_attributes(Simulator& sim, PyObject* context) {
  PyObject** dict = _PyObject_GetDictPtr(context);
  PyObject *name, *value;
  for (Py_ssize_t pos = 0; dict && *dict && PyDict_Next(*dict, &pos, &name, &value);) {
    const bool constant = is_plain_data(value) || (is_identity_constant(value) && !sim.made_constants().count(value));
    if (!constant && !sim.is_tensor(value)) return false;
  }
  return true;
}

// torch.autograd.function.once_differentiable wraps what it is given in code that, without gradients of gradients,
// only calls it.
SymValue unwrapped_backward(Simulator& sim, SymValue backward) {
  PyObject* function = sim.realise(backward);
  if (!PyFunction_Check(function)) return backward;
  const bool wraps = is_made_by(function, library().once_differentiable, "wrapper");
  PyObject* closure = PyFunction_GET_CLOSURE(function);
  if (!wraps || !closure || PyTuple_GET_SIZE(closure) != 1) return backward;
  sim.note_frozen(FrozenRead::Kind::kCode, function, nullptr, PyFunction_GET_CODE(function));
  sim.world().rely_on_code(function);
  return SymValue::borrow(PyCell_GET(PyTuple_GET_ITEM(closure, 0)));
}

// What a backward gave: a tensor or None for each argument. More of None count as none.
std::vector<PyObject*> gradients_of(Simulator& sim, PyObject* function, SymValue result, size_t count) {
  PyObject* obj = sim.keep(Ref::borrow(sim.realise(result)));
  std::vector<SymValue> gradients{result};
  if (PyTuple_Check(obj)) gradients = sim.collect(result);
  while (gradients.size() > count && sim.realise(gradients.back()) == Py_None) gradients.pop_back();
  std::vector<PyObject*> objects;
  for (SymValue& gradient : gradients) {
    objects.push_back(sim.keep(Ref::borrow(sim.realise(gradient))));
    if (gradients.size() != count || (objects.back() != Py_None && !sim.is_tensor(objects.back())))
      refuse(sim, function, "what its backward gives is no gradient for each argument");
  }
  return objects;
}

// Follows the backward once, for gradients like the outputs.
void require_recordable(Simulator& sim, PyObject* owner, const FunctionCall& call) {
  TensorHost& host = sim.services().host;
  std::string why_not;
  const std::vector<Ref> gradients = host.begin_gradient(&why_not);
  if (gradients.empty()) {
    if (PyErr_Occurred()) sim.raise();
    refuse(sim, owner, why_not);
  }
  CallArgs args;
  args.positional.push_back(SymValue::borrow(call.context));
  for (const Ref& gradient : gradients)
    args.positional.push_back(gradient ? SymValue(gradient) : SymValue::borrow(Py_None));
  std::vector<FrozenRead> reads;
  std::vector<PyObject*> results;
  {
    const GradModeOff off(sim);
    results = sim.in_backward(reads, [&] {
      const SymValue backward = unwrapped_backward(sim, sim.load_attr(SymValue::borrow(owner), "backward"));
      return gradients_of(sim, owner, sim.call(backward, std::move(args)), call.arguments.size());
    });
  }
  if (host.end_gradient(results, std::move(reads), &why_not)) return;
  if (PyErr_Occurred()) sim.raise();
  refuse(sim, owner, "its backward " + why_not);
}

// Takes the tensors of what the call gave.
std::vector<PyObject*> outputs_of(Simulator& sim, PyObject* result) {
  std::vector<PyObject*> outputs{result};
  if (PyTuple_Check(result)) {
    outputs.clear();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); ++i) outputs.push_back(PyTuple_GET_ITEM(result, i));
  }
  for (PyObject*& output : outputs)
    if (!sim.is_tensor(output)) output = Py_None;
  return outputs;
}

Ref context_of(Simulator& sim, const std::vector<PyObject*>& outputs) {
  for (PyObject* output : outputs) {
    if (output == Py_None) continue;
    Ref node = sim.check(PyObject_GetAttrString(output, "grad_fn"));
    if (node.get() != Py_None) return node;
  }
  return {};
}

}  // namespace

SymValue call_differentiated(Simulator& sim, PyObject* owner, PyObject* apply, CallArgs args) {
  const SymValue function = SymValue::borrow(owner);
  if (const char* why = why_not_state(sim)) refuse(sim, owner, why);
  if (const char* why = why_not_class(sim, function)) refuse(sim, owner, why);
  TensorHost& host = sim.services().host;
  FunctionCall call{owner, nullptr, {}, {}};
  for (SymValue& value : args.positional) {
    PyObject* argument = sim.realise(value);
    call.arguments.push_back(sim.is_tensor(argument) ? sim.keep(Ref::borrow(argument)) : Py_None);
  }
  std::string why_not;
  host.begin_function();
  SymValue result;
  try {
    result = sim.call_real(apply, args);
  } catch (...) {
    host.end_function(nullptr, nullptr);
    throw;
  }
  call.outputs = outputs_of(sim, result.get());
  const Ref context = context_of(sim, call.outputs);
  const SymValue context_type = sim.load_attr(function, "_backward_cls");
  if (!context || reinterpret_cast<PyObject*>(Py_TYPE(context.get())) != context_type.get())
    refuse(sim, owner, "no output of it is differentiated");
  if (!has_plain_attributes(sim, context.get())) refuse(sim, owner, "its context has more than tensors and plain data");
  call.context = context.get();
  sim.seal_context(context.get());
  if (!host.end_function(&call, &why_not)) refuse(sim, owner, why_not);
  try {
    require_recordable(sim, owner, call);
  } catch (const PythonRaised&) {
    PyErr_Clear();
    refuse(sim, owner, "its backward raises an exception");
  } catch (StopTrace& stopped) {
    const std::string why = stopped.stop.detail;
    if (why.find(" where gradients are recorded") == std::string::npos) {
      const std::string reason = why.empty() ? std::string(stop_reason_info(stopped.stop.reason).text) : why;
      stopped.stop.detail =
          fmt::format("{} where gradients are recorded: in its backward {}", qualified_name(owner), reason);
      stopped.stop.reason = StopReason::kUnsupportedTensor;
    }
    throw;
  }
  return result;
}

}  // namespace builtins

}  // namespace framejit
