// torch.autograd.profiler.record_function: names a region for a profiler. Where none is on, it does nothing that can be
// seen, and its record is an object that only its end takes.
#include "tracer/builtins.h"
#include "tracer/library.h"
#include "tracer/simulator.h"

namespace framejit::builtins {

namespace {

constexpr char kRecord[] = "framejit.record_of_no_profiler";

// Stands for the record in the trace. It cannot be rebuilt: a capture that would end within the region ends where the
// interpreter enters it.
SymValue make_record(Simulator& sim) {
  static char nothing;
  Ref record = sim.check(PyCapsule_New(&nothing, kRecord, nullptr));
  sim.note_native_origin(record.get());
  return SymValue(std::move(record));
}

bool no_profiler_is_on(Simulator& sim) {
  PyObject* question = library().profiler_enabled;
  return question && sim.rely_on_answer(question).get() == Py_False;
}

}  // namespace

SymValue enter_profiler_region(Simulator& sim, PyObject* callable, CallArgs args) {
  if (args.count() != 1 || args.has_keywords() || !no_profiler_is_on(sim))
    return sim.follow_function(callable, std::move(args), false);
  SymValue region = args.positional[0];
  sim.store_attr(region, interned("record"), make_record(sim));
  return region;
}

SymValue exit_profiler_region(Simulator& sim, PyObject* callable, CallArgs args) {
  SymValue record = args.count() == 4 && !args.has_keywords() ? sim.load_attr(args.positional[0], interned("record"))
                                                              : SymValue::borrow(Py_None);
  if (!PyCapsule_IsValid(sim.realise(record), kRecord)) return sim.follow_function(callable, std::move(args), false);
  return SymValue::borrow(Py_None);
}

}  // namespace framejit::builtins
