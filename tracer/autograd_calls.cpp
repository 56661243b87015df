// Calls by which a program takes part in autograd, and operators whose code is the program's.
#include <algorithm>

#include "tracer/builtins.h"
#include "tracer/library.h"
#include "tracer/proxies.h"

namespace framejit {

// Custom operators

void Simulator::note_custom_operator() {
  if (!first_custom_operator_) first_custom_operator_ = current_break_point();
}

void Simulator::require_unobserved_operators() {
  if (!first_custom_operator_ || (!capture_->has_handlers && capture_->effects.empty())) return;
  throw StopTrace{
      TraceStop{StopReason::kUnknownCall,
                "a custom operator among effects of the program, or in code that handles exceptions", location_text()},
      *first_custom_operator_};
}

namespace builtins {

bool is_grad_enabled(Simulator& sim) {
  PyObject* torch = PyDict_GetItemString(PyImport_GetModuleDict(), "torch");
  const Ref mode = sim.check(PyObject_CallMethod(torch, "is_grad_enabled", nullptr));
  return mode.get() == Py_True;
}

void realise_all(Simulator& sim, CallArgs& args) {
  for (SymValue& value : args.positional) sim.realise(value);
  for (auto& [name, value] : args.keywords) sim.realise(value);
}

Ref imported(Simulator& sim, const char* module, const char* name) {
  Ref holder = sim.check(PyImport_ImportModule(module));
  return sim.check(PyObject_GetAttrString(holder.get(), name));
}

PyObject* rely_on_item(Simulator& sim, PyObject* dict, const char* name) {
  PyObject* value = PyDict_GetItemString(dict, name);
  sim.world().rely_on_item(dict, interned(name), value);
  return value;
}

namespace {

bool is_true(Simulator& sim, PyObject* tensor, const char* attribute) {
  const Ref value = sim.check(PyObject_GetAttrString(tensor, attribute));
  return value.get() == Py_True;
}

// Whether autograd makes a node for a call with these arguments.
bool is_differentiated(Simulator& sim, const CallArgs& args) {
  auto requires_grad = [&](const SymValue& value) {
    return sim.is_tensor(value.get()) && is_true(sim, value.get(), "requires_grad");
  };
  return is_grad_enabled(sim) && std::any_of(args.positional.begin(), args.positional.end(), requires_grad);
}

// A class beside the program's, which C code takes for it: `forward` and `setup_context` run in the simulation, with
// a context of the program's own kind.
Ref simulated_function(Simulator& sim, const SymValue& function) {
  const SymValue forward = sim.load_attr(function, "forward"), setup = sim.load_attr(function, "setup_context");
  const SymValue context = sim.load_attr(function, "_backward_cls");
  Ref methods = sim.check(PyDict_New());
  auto add = [&](const char* name, const SymValue& method) {
    const Ref proxy = make_sim_callable(sim, method);
    sim.check_status(PyDict_SetItemString(methods.get(), name, proxy.get()));
  };
  add("forward", forward);
  if (setup.get() != library().autograd_function_setup) add("setup_context", setup);
  PyObject* base = library().autograd_function;
  Ref made =
      sim.check(PyObject_CallFunction(reinterpret_cast<PyObject*>(Py_TYPE(base)), "s(O)O",
                                      reinterpret_cast<PyTypeObject*>(function.get())->tp_name, base, methods.get()));
  sim.check_status(PyObject_SetAttrString(made.get(), "_backward_cls", context.get()));
  return made;
}

// C code puts the grad mode back when `forward` ends, whatever was set there.
class GradModeOfCaller {
 public:
  explicit GradModeOfCaller(Simulator& sim)
      : sim_(sim), calls_before_(sim.state_calls().size()), enabled_(is_grad_enabled(sim)) {}
  GradModeOfCaller(const GradModeOfCaller&) = delete;
  GradModeOfCaller& operator=(const GradModeOfCaller&) = delete;
  ~GradModeOfCaller() {
    if (sim_.state_calls().size() != calls_before_)
      sim_.record_state_call(library().set_grad_enabled, {enabled_ ? Py_True : Py_False});
  }

 private:
  Simulator& sim_;
  size_t calls_before_;
  bool enabled_;
};

// With a setup_context the arguments that a call leaves out are bound before the context sees them.
bool leaves_out_arguments(Simulator& sim, const SymValue& function, const CallArgs& args) {
  if (sim.load_attr(function, "setup_context").get() == library().autograd_function_setup) return false;
  const SymValue forward = sim.load_attr(function, "forward");
  if (!PyFunction_Check(forward.get())) return true;
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(forward.get()));
  return code->co_kwonlyargcount > 0 || args.count() < static_cast<size_t>(code->co_argcount);
}

}  // namespace

// A call that makes no node of autograd's graph is a call of `forward` without gradients. One that makes a node has
// code of the program in its backward too (backwards.cpp).
static SymValue apply_function(Simulator& sim, PyObject* owner, CallArgs args) {
  for (SymValue& value : args.positional) sim.realise(value);
  const SymValue function = SymValue::borrow(owner);
  if (leaves_out_arguments(sim, function, args))
    sim.stop(StopReason::kUnknownCall, fmt::format("{} with defaults of its arguments", qualified_name(owner)));
  PyObject* simulated = sim.keep(simulated_function(sim, function));
  // Not what the class has by that name, which is Python code in some releases.
  PyObject* method =
      _PyType_Lookup(reinterpret_cast<PyTypeObject*>(library().autograd_function_base), interned("apply"));
  const Ref apply = sim.check(Py_TYPE(method)->tp_descr_get(method, nullptr, simulated));
  const GradModeOfCaller caller(sim);
  if (is_differentiated(sim, args)) return call_differentiated(sim, owner, apply.get(), std::move(args));
  return sim.call_real(apply.get(), args);
}

static void require_function(Simulator& sim, PyObject* owner, PyObject* callable, const CallArgs& args) {
  const bool is_function = owner && PyType_Check(owner) && library().autograd_function_base &&
                           PyObject_IsSubclass(owner, library().autograd_function) == 1;
  if (!is_function || args.has_keywords()) sim.stop(StopReason::kUnknownCall, qualified_name(callable));
}

SymValue call_autograd_function(Simulator& sim, PyObject* callable, CallArgs args) {
  PyObject* owner = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  require_function(sim, owner, callable, args);
  return apply_function(sim, owner, std::move(args));
}

// Where `apply` is a class method in Python, which binds defaults and then calls that of C.
SymValue call_autograd_function_method(Simulator& sim, PyObject* callable, CallArgs args) {
  PyObject* owner = args.positional.empty() ? nullptr : sim.realise(args.positional[0]);
  require_function(sim, owner, callable, args);
  args.positional.erase(args.positional.begin());
  return apply_function(sim, owner, std::move(args));
}

// Of what requires gradients already, or does not, it asks nothing new. Tensors of a level of torch.func end with it.
SymValue call_requires_grad(Simulator& sim, PyObject* callable, CallArgs args) {
  if (!args.positional.empty() && sim.services().host.is_level_tensor(sim.realise(args.positional[0])))
    return sim.call_real(callable, args);
  SymValue wanted = SymValue::borrow(Py_True);
  if (args.positional.size() == 2) wanted = args.positional[1];
  for (auto& [name, value] : args.keywords)
    if (!PyUnicode_CompareWithASCIIString(name.get(), "requires_grad")) wanted = value;
  PyObject* tensor = args.positional.empty() ? nullptr : sim.realise(args.positional[0]);
  const bool known =
      tensor && sim.is_tensor(tensor) && args.count() + args.keywords.size() <= 2 && PyBool_Check(sim.realise(wanted));
  if (!known || is_true(sim, tensor, "requires_grad") != (wanted.get() == Py_True))
    sim.stop(StopReason::kUnsupportedTensor, "requires_grad of a tensor is changed");
  return args.positional[0];
}

// A leaf keeps its gradient without being asked to.
SymValue call_retain_grad(Simulator& sim, PyObject*, CallArgs args) {
  PyObject* tensor = args.count() == 1 ? sim.realise(args.positional[0]) : nullptr;
  const bool is_kept = tensor && sim.is_tensor(tensor) && is_true(sim, tensor, "is_leaf");
  if (!is_kept || !is_true(sim, tensor, "requires_grad"))
    sim.stop(StopReason::kUnsupportedTensor, "the gradient of a tensor inside the graph is kept");
  return SymValue::borrow(Py_None);
}

// It raises for a view, which a tensor from outside may be at one call and not at the next.
SymValue call_detach_in_place(Simulator& sim, PyObject* callable, CallArgs args) {
  PyObject* tensor = args.positional.empty() ? nullptr : sim.realise(args.positional[0]);
  if (!tensor || !sim.is_tensor(tensor) || sim.world().find(tensor))
    sim.stop(StopReason::kUnsupportedTensor, "a tensor from outside is detached in place");
  return sim.call_real(callable, args);
}

}  // namespace builtins

}  // namespace framejit
