// operator.is_, operator.eq, operator.contains and the like: what instructions of the interpreter do.
#include <algorithm>
#include <iterator>
#include <string_view>

#include "tracer/builtins.h"
#include "tracer/simulator.h"

namespace framejit::builtins {

using bytecode::CompareKind;

namespace {

// Else the function itself raises.
bool has_two(const CallArgs& args) { return args.positional.size() == 2 && !args.has_keywords(); }

std::string_view name_of(PyObject* function) {
  return PyCFunction_Check(function) ? reinterpret_cast<PyCFunctionObject*>(function)->m_ml->ml_name : "";
}

}  // namespace

// is_ and is_not.
SymValue call_is(Simulator& sim, PyObject* callable, CallArgs args) {
  if (!has_two(args)) return sim.call_c(callable, args);
  return SymValue::of_bool(sim.is_identical(args.positional[0], args.positional[1]) == (name_of(callable) == "is_"));
}

SymValue call_compare(Simulator& sim, PyObject* callable, CallArgs args) {
  static constexpr std::string_view kNames[] = {"lt", "le", "eq", "ne", "gt", "ge"};  // as CompareKind
  const auto* found = std::find(std::begin(kNames), std::end(kNames), name_of(callable));
  if (!has_two(args) || found == std::end(kNames)) return sim.call_c(callable, args);
  const auto kind = static_cast<CompareKind>(found - std::begin(kNames));
  return sim.compare(kind, std::move(args.positional[0]), std::move(args.positional[1]));
}

SymValue call_contains(Simulator& sim, PyObject* callable, CallArgs args) {
  if (!has_two(args)) return sim.call_c(callable, args);
  return SymValue::of_bool(sim.contains(args.positional[0], args.positional[1]));
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
