// Instances made in the trace: type.__call__ step by step, so that __new__ and __init__ in Python are inlined.
#include "tracer/callables.h"
#include "tracer/library.h"
#include "tracer/library_code.h"
#include "tracer/proxies.h"
#include "tracer/simulator.h"

namespace framejit {

std::pair<PyTypeObject*, SymValue> Simulator::super_parts(PyObject* super) {
  if (is_outside_opaque(super)) stop(StopReason::kUnsupportedValue, "a super object of the program");
  // Its own: other looks go past it, and find those of an instance of a subclass of super.
  Ref start = check(PyObject_GenericGetAttr(super, interned("__thisclass__")));
  Ref self = check(PyObject_GenericGetAttr(super, interned("__self__")));
  return {reinterpret_cast<PyTypeObject*>(keep(std::move(start))), SymValue(std::move(self))};
}

namespace {

bool holds_value(PyObject* members, PyObject* value) {
  const int found = members && PyDict_Check(members) ? PyDict_Contains(members, value) : 0;
  if (found < 0) PyErr_Clear();  // cannot be hashed
  return found == 1;
}

// Whether the call only looks a member up by its value, in code of the enum module: what a program defines for values
// that no member has is not asked.
bool looks_member_up(Simulator& sim, PyTypeObject* type, const CallArgs& args) {
  if (args.has_keywords() || args.positional.empty()) return false;
  if (!is_code_of_enums(sim.lookup_type(Py_TYPE(type), interned("__call__")))) return false;
  if (!is_code_of_enums(sim.lookup_type(type, interned("__new__")))) return false;
  PyObject* names = sim.lookup_type(type, interned("_member_map_"));
  if (!names || !PyDict_Check(names) || PyDict_GET_SIZE(names) == 0) return false;  // it makes a class
  if (is_code_of_enums(sim.lookup_type(type, interned("_missing_")))) return true;
  return args.positional.size() == 1 &&
         holds_value(sim.lookup_type(type, interned("_value2member_map_")), args.positional[0].get());
}

}  // namespace

SymValue Simulator::call_type(PyTypeObject* type, CallArgs args) {
  auto* obj = reinterpret_cast<PyObject*>(type);
  if (const CallableRow* row = find_callable(obj)) return call_row(*row, obj, std::move(args));
  PyTypeObject* meta = Py_TYPE(type);
  PyObject* enum_meta = library().enum_meta;
  if (enum_meta && PyType_IsSubtype(meta, reinterpret_cast<PyTypeObject*>(enum_meta))) {
    for (SymValue& value : args.positional) realise(value);
    require_plain(args, obj);
    if (!looks_member_up(*this, type, args))
      stop(StopReason::kUnknownCall, fmt::format("a call of the enumeration '{}'", type->tp_name));
    return call_real(obj, args);
  }
  if (meta != &PyType_Type) {
    PyObject* hook = lookup_type(meta, interned("__call__"));
    if (hook && PyFunction_Check(hook)) {
      args.positional.insert(args.positional.begin(), SymValue::borrow(obj));
      return call_function(hook, std::move(args), false);
    }
    if (hook && hook != _PyType_Lookup(&PyType_Type, interned("__call__")))
      return call(bind(hook, SymValue::borrow(obj)), std::move(args));
  }
  return construct(type, std::move(args));
}

// The simulation keeps objects longer than the program does, so what runs when one dies would run too late.
void Simulator::refuse_finalizer(PyTypeObject* type) {
  if (lookup_type(type, interned("__del__")))
    stop(StopReason::kUnsupportedValue, fmt::format("an instance of '{}', which has __del__", type->tp_name));
}

// type.__call__: __new__, then __init__ if the result is an instance.
SymValue Simulator::construct(PyTypeObject* type, CallArgs args) {
  auto* obj = reinterpret_cast<PyObject*>(type);
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) &&
      !PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException)))
    stop(StopReason::kUnknownCall, fmt::format("an instance of '{}'", type->tp_name));
  if (services_.runs_eagerly(obj)) stop(StopReason::kNotToStatic, qualified_name(obj));
  if (!type->tp_mro)
    stop(StopReason::kUnknownCall, fmt::format("'{}', which its metaclass is just making", type->tp_name));
  refuse_finalizer(type);
  CallArgs new_args = args;
  new_args.positional.insert(new_args.positional.begin(), SymValue::borrow(obj));
  PyObject* new_entry = lookup_type(type, interned("__new__"));
  SymValue instance;
  PyObject* function = new_entry;
  Ref inner;
  if (function && Py_TYPE(function) == &PyStaticMethod_Type) {
    inner = check(PyObject_GetAttrString(function, "__func__"));
    function = inner.get();
  }
  const bool is_of_c =
      PyCFunction_Check(function) && PyCFunction_GET_SELF(function) && PyType_Check(PyCFunction_GET_SELF(function));
  if (!PyFunction_Check(function) && !is_of_c)
    stop(StopReason::kUnknownCall, fmt::format("__new__ of '{}', which is no function", type->tp_name));
  instance = call(SymValue::borrow(function), std::move(new_args));
  PyTypeObject* made = Py_TYPE(instance.get());
  if (!PyType_IsSubtype(made, type)) return instance;
  PyObject* init = lookup_type(made, interned("__init__"));
  if (!init) return instance;
  SymValue initialise = SymValue::borrow(init);
  if (PyFunction_Check(init) || is_descriptor_of_c(init))
    args.positional.insert(args.positional.begin(), instance);
  else
    initialise = bind(init, instance);
  SymValue result = call(std::move(initialise), std::move(args));
  if (realise(result) != Py_None)
    raise(PyExc_TypeError, fmt::format("__init__() should return None, not '{}'", Py_TYPE(result.get())->tp_name));
  return instance;
}

}  // namespace framejit
