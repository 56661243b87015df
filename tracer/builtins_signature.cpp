// inspect.signature of a plain function: taken at once, under guards of all that it is made of.
#include "tracer/builtins.h"

namespace framejit::builtins {

namespace {

bool same_items(PyObject* dict, PyObject* other) {
  if (!PyDict_CheckExact(dict) || !PyDict_CheckExact(other)) return false;
  PyObject *key, *value;
  for (Py_ssize_t pos = 0; PyDict_Next(dict, &pos, &key, &value);)
    if (PyDict_GetItem(other, key) != value) return false;
  return PyDict_GET_SIZE(dict) == PyDict_GET_SIZE(other);
}

// Reading an attribute guards it. What the trace has may differ from what the function itself has: a write is pending.
bool has_as_traced(Simulator& sim, const SymValue& function, const char* name) {
  Ref real = Ref::steal(PyObject_GetAttrString(function.get(), name));
  std::optional<SymValue> traced = sim.find_attr(function, interned(name));
  if (!real || !traced) return PyErr_Clear(), false;
  PyObject* value = sim.realise(*traced);
  return value == real.get() || same_items(value, real.get());
}

// Others say themselves what their signature is (PEP 362).
bool is_plain_function(Simulator& sim, SymValue callable) {
  PyObject* obj = sim.realise(callable);
  if (PyMethod_Check(obj)) callable = SymValue::borrow(obj = PyMethod_GET_FUNCTION(obj));
  if (!PyFunction_Check(obj)) return false;
  for (const char* name : {"__wrapped__", "__signature__", "__text_signature__", "_partialmethod"})
    if (sim.generic_find_attr(obj, interned(name))) return false;
  for (const char* name : {"__code__", "__defaults__", "__kwdefaults__", "__annotations__"})
    if (!has_as_traced(sim, callable, name)) return false;
  return true;
}

}  // namespace

SymValue call_signature(Simulator& sim, PyObject* callable, CallArgs args) {
  if (args.count() == 1 && !args.has_keywords() && is_plain_function(sim, args.positional[0]))
    return sim.call_real(callable, args);
  return sim.follow_function(callable, std::move(args), /*plain=*/true);
}

}  // namespace framejit::builtins
