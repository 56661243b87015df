// operator.is_, operator.eq, operator.contains and the like: what instructions of the interpreter do.
#include "tracer/builtins.h"
#include "tracer/simulator.h"

namespace framejit::builtins {

using bytecode::CompareKind;

namespace {

SymValue truth(bool value) { return SymValue::borrow(value ? Py_True : Py_False); }

// Else the function itself raises.
bool has_two(const CallArgs& args) { return args.positional.size() == 2 && !args.has_keywords(); }

SymValue compare(Simulator& sim, PyObject* callable, CallArgs args, CompareKind kind) {
  if (!has_two(args)) return sim.call_c(callable, args);
  return sim.compare(kind, std::move(args.positional[0]), std::move(args.positional[1]));
}

}  // namespace

SymValue call_is(Simulator& sim, PyObject* callable, CallArgs args) {
  if (!has_two(args)) return sim.call_c(callable, args);
  return truth(sim.is_identical(args.positional[0], args.positional[1]));
}

SymValue call_is_not(Simulator& sim, PyObject* callable, CallArgs args) {
  if (!has_two(args)) return sim.call_c(callable, args);
  return truth(!sim.is_identical(args.positional[0], args.positional[1]));
}

SymValue call_less(Simulator& sim, PyObject* callable, CallArgs args) {
  return compare(sim, callable, std::move(args), CompareKind::kLess);
}
SymValue call_less_equal(Simulator& sim, PyObject* callable, CallArgs args) {
  return compare(sim, callable, std::move(args), CompareKind::kLessEqual);
}
SymValue call_equal(Simulator& sim, PyObject* callable, CallArgs args) {
  return compare(sim, callable, std::move(args), CompareKind::kEqual);
}
SymValue call_not_equal(Simulator& sim, PyObject* callable, CallArgs args) {
  return compare(sim, callable, std::move(args), CompareKind::kNotEqual);
}
SymValue call_greater(Simulator& sim, PyObject* callable, CallArgs args) {
  return compare(sim, callable, std::move(args), CompareKind::kGreater);
}
SymValue call_greater_equal(Simulator& sim, PyObject* callable, CallArgs args) {
  return compare(sim, callable, std::move(args), CompareKind::kGreaterEqual);
}

SymValue call_contains(Simulator& sim, PyObject* callable, CallArgs args) {
  if (!has_two(args)) return sim.call_c(callable, args);
  return truth(sim.contains(args.positional[0], args.positional[1]));
}

// countOf and indexOf.
SymValue call_search(Simulator& sim, PyObject* callable, CallArgs args) {
  if (has_two(args)) {
    args.positional[0] = sim.as_c_iterable(std::move(args.positional[0]));
    PyObject* container = sim.realise(args.positional[0]);
    if (PyIter_Check(container))
      sim.stop(StopReason::kUnsupportedValue, "an iterator is searched by the module operator");
    sim.rely_on_search(container, sim.realise(args.positional[1]));
    sim.require_plain(args, callable);
  }
  return sim.call_c(callable, args);
}

}  // namespace framejit::builtins
