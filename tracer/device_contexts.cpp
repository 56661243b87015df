#include "tracer/device_contexts.h"

#include "tracer/builtins.h"
#include "tracer/callables.h"
#include "tracer/library.h"
#include "tracer/simulator.h"

namespace framejit {

namespace {

// The functions that take the default device: torch's own set.
PyObject* device_constructors(Simulator& sim) {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "torch.utils._device");
  if (!module) sim.stop(StopReason::kUnknownCall, "a torch.device context without torch.utils._device");
  PyObject* set = sim.keep(sim.check(PyObject_CallMethod(module, "_device_constructors", nullptr)));
  if (!PyAnySet_Check(set)) sim.stop(StopReason::kUnknownCall, "torch.utils._device._device_constructors gives no set");
  return set;
}

PyObject* innermost_device(Simulator& sim) {
  PyObject* device = sim.device_contexts().innermost();
  if (!device) sim.stop(StopReason::kUnsupportedValue, "a torch.device context without a device");
  return device;
}

bool is_cpu(Simulator& sim, PyObject* device) {
  Ref type = sim.check(PyObject_GetAttrString(device, "type"));
  return PyUnicode_Check(type.get()) && PyUnicode_CompareWithASCIIString(type.get(), "cpu") == 0;
}

}  // namespace

void name_default_device(Simulator& sim, PyObject* callable, CallArgs& args) {
  if (!sim.device_contexts().active() || !PyCFunction_Check(callable)) return;
  const int found = PySet_Contains(device_constructors(sim), callable);
  sim.check_status(found);
  if (!found) return;
  SymValue device = SymValue::borrow(innermost_device(sim));
  for (auto& [name, value] : args.keywords) {
    if (PyUnicode_CompareWithASCIIString(name.get(), "device") != 0) continue;
    if (sim.realise(value) == Py_None) value = device;
    return;
  }
  args.keywords.emplace_back(Ref::borrow(interned("device")), device);
}

namespace builtins {

SymValue call_device_enter(Simulator& sim, PyObject* callable, CallArgs args) {
  const bool well_formed = !args.has_keywords() && args.positional.size() == 1;
  PyObject* device = well_formed ? sim.realise(args.positional[0]) : nullptr;
  if (!device || !PyObject_TypeCheck(device, reinterpret_cast<PyDescrObject*>(callable)->d_type))
    sim.stop(StopReason::kUnknownCall, "torch.device.__enter__ outside of a with statement");
  sim.device_contexts().enter(Ref::borrow(device));
  return args.positional[0];
}

SymValue call_device_exit(Simulator& sim, PyObject*, CallArgs args) {
  if (args.has_keywords() || args.positional.size() != 4 || !sim.device_contexts().active())
    sim.stop(StopReason::kUnknownCall, "torch.device.__exit__ outside of a with statement");
  sim.device_contexts().leave();
  return SymValue::borrow(Py_None);
}

// torch.overrides.has_torch_function and its like: any mode counts.
SymValue call_has_torch_function(Simulator& sim, PyObject* callable, CallArgs args) {
  for (SymValue& value : args.positional) {
    sim.hold_number(value);
    value = SymValue(sim.with_some_floats(value.get()));
  }
  sim.require_plain(args, callable);
  SymValue answer = sim.call_real(callable, args);
  return sim.device_contexts().active() ? SymValue::borrow(Py_True) : answer;
}

// torch.overrides.handle_torch_function(public_api, relevant_args, *args, **kwargs): the innermost mode takes the call,
// and makes it again.
SymValue call_handle_torch_function(Simulator& sim, PyObject* callable, CallArgs args) {
  if (!sim.device_contexts().active() || args.positional.size() < 2)
    return sim.follow_function(callable, std::move(args), false);
  SymValue function = args.positional[0];
  args.positional.erase(args.positional.begin(), args.positional.begin() + 2);
  name_default_device(sim, sim.realise(function), args);
  DeviceContexts::Inside inside(sim.device_contexts());
  return sim.call(std::move(function), std::move(args));
}

// What it looks at, the stack of modes or what set_default_device left elsewhere, differs from release to release.
SymValue call_get_default_device(Simulator& sim, PyObject* callable, CallArgs args) {
  if (args.has_keywords() || args.count() != 0) return sim.follow_function(callable, std::move(args), false);
  if (sim.device_contexts().concerned()) sim.stop(StopReason::kUnknownCall, qualified_name(callable));
  Ref device = sim.check(PyObject_CallObject(callable, nullptr));
  if (!is_cpu(sim, device.get())) sim.stop(StopReason::kUnknownCall, qualified_name(callable));
  return SymValue(std::move(device));
}

// torch._C._is_torch_function_mode_enabled, which would see that the trace runs without modes.
SymValue call_is_mode_enabled(Simulator& sim, PyObject* callable, CallArgs args) {
  if (args.count() || args.has_keywords()) sim.stop(StopReason::kUnknownCall, "a question with arguments");
  if (!sim.device_contexts().concerned()) return SymValue(sim.rely_on_answer(callable));
  return SymValue::of_bool(sim.device_contexts().active());
}

}  // namespace builtins
}  // namespace framejit
