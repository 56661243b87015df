// Handlers of state of torch that operators are recorded under: inference mode, the default dtype.
#include "tracer/inference_modes.h"

#include "tracer/builtins.h"
#include "tracer/library.h"
#include "tracer/simulator.h"

namespace framejit::builtins {
namespace {

PyObject* torch_module() { return PyDict_GetItemString(PyImport_GetModuleDict(), "torch"); }

}  // namespace

// The mode begins when the object is made, so it is made without its constructor.
SymValue call_inference_mode(Simulator& sim, PyObject* callable, CallArgs args) {
  const bool known = args.count() == 1 && !args.has_keywords() && PyBool_Check(sim.realise(args.positional[0]));
  if (!known || sim.transforms().active()) sim.stop(StopReason::kGlobalMutation, "torch._C._InferenceMode");
  const BreakPoint before = sim.current_break_point();
  SymValue made = sim.from_real(sim.check(PyObject_CallMethod(callable, "__new__", "O", callable)));
  sim.inference_modes().enter({Ref::borrow(sim.keep(made.obj)), before, sim.state_calls().size()});
  sim.services().host.enter_inference_mode(args.positional[0].get() == Py_True);
  return made;
}

SymValue call_inference_mode_enter(Simulator& sim, PyObject* callable, CallArgs args) {
  const InferenceModes& modes = sim.inference_modes();
  const bool known = args.count() == 1 && !args.has_keywords() && modes.active();
  if (!known || sim.realise(args.positional[0]) != modes.innermost().context.get())
    sim.stop(StopReason::kGlobalMutation, qualified_name(callable));
  return SymValue::borrow(Py_None);
}

// Leaving puts back the grad mode of before, whatever was set inside.
SymValue call_inference_mode_exit(Simulator& sim, PyObject* callable, CallArgs args) {
  InferenceModes& modes = sim.inference_modes();
  PyObject* context = args.count() >= 1 ? sim.realise(args.positional[0]) : nullptr;
  if (!modes.active() || modes.innermost().context.get() != context)
    sim.stop(StopReason::kGlobalMutation, qualified_name(callable));
  const BreakPoint outermost = modes.outermost();
  const bool changed = sim.state_calls().size() != modes.innermost().state_calls;
  modes.leave();
  if (!sim.services().host.leave_inference_mode())
    throw StopTrace{{StopReason::kGlobalMutation, "inside of inference mode", sim.location_text()}, outermost};
  if (changed) {
    Ref enabled = sim.check(PyObject_CallMethod(torch_module(), "is_grad_enabled", nullptr));
    sim.record_state_call(library().set_grad_enabled, {enabled.get()});
  }
  return SymValue::borrow(Py_None);
}

SymValue call_set_default_dtype(Simulator& sim, PyObject* callable, CallArgs args) {
  if (args.count() != 1 || args.has_keywords() || sim.transforms().active())
    sim.stop(StopReason::kGlobalMutation, qualified_name(callable));
  PyObject* type = sim.realise(args.positional[0]);
  Ref before = sim.check(PyObject_CallMethod(torch_module(), "get_default_dtype", nullptr));
  SymValue result = sim.call_real(callable, args);
  sim.note_default_dtype(before.get(), callable, type);
  sim.services().host.note_state();
  return result;
}

}  // namespace framejit::builtins
