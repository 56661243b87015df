// torch.autograd.profiler.record_function: nobody listens while no profiler is on, which each call looks at again.
#include "tracer/builtins.h"
#include "tracer/simulator.h"

namespace framejit::builtins {
namespace {

// One that the trace has made, while no profiler is on; else the capture ends.
SymValue require_unheard(Simulator& sim, PyObject* callable, const CallArgs& args) {
  SymValue range = args.positional.empty() ? SymValue() : args.positional[0];
  if (range.null() || sim.world().find(sim.realise(range))) sim.stop(StopReason::kUnknownCall, qualified_name(callable));
  const Ref module = sim.check(PyImport_ImportModule("torch._C._autograd"));
  const Ref question = sim.check(PyObject_GetAttrString(module.get(), "_profiler_enabled"));
  if (sim.rely_on_answer(sim.keep(question)).get() != Py_False)
    sim.stop(StopReason::kUnknownCall, qualified_name(callable) + " under a profiler");
  PyObject* names = PyDict_GetItemString(PyImport_GetModuleDict(), "torch.autograd.profiler");
  PyObject* observer = rely_on_item(sim, PyModule_GetDict(names), "_active_cuspy_profiler_observer");
  if (observer && observer != Py_None) sim.stop(StopReason::kUnknownCall, qualified_name(callable));
  return range;
}

}  // namespace

// Where a capture ends inside of the range, its end has nothing to say either.
SymValue call_enter_range(Simulator& sim, PyObject* callable, CallArgs args) {
  SymValue range = require_unheard(sim, callable, args);
  sim.store_attr(range, interned("run_callbacks_on_exit"), SymValue::borrow(Py_False));
  return range;
}

SymValue call_leave_range(Simulator& sim, PyObject* callable, CallArgs args) {
  require_unheard(sim, callable, args);
  return SymValue::borrow(Py_None);
}

}  // namespace framejit::builtins
