// What C code may be handed: values that run no code of the program and hold nothing that no guard looks at.
#include <algorithm>

#include "tracer/library.h"
#include "tracer/library_code.h"
#include "tracer/proxies.h"
#include "tracer/simulator.h"
#include "tracer/type_slots.h"

namespace framejit {

namespace {

// Special methods through which C code could run Python code of an operand's type, torch's functions by the last.
// Text forms are not among them: only str(), repr() and format() use these, and look for themselves.
const char* const kSpecials[] = {
    "__eq__",      "__ne__",        "__lt__",       "__le__",        "__gt__",       "__ge__",
    "__hash__",    "__iter__",      "__next__",     "__len__",       "__bool__",     "__contains__",
    "__getitem__", "__setitem__",   "__delitem__",  "__index__",     "__int__",      "__float__",
    "__add__",     "__radd__",      "__sub__",      "__rsub__",      "__mul__",      "__rmul__",
    "__truediv__", "__rtruediv__",  "__floordiv__", "__mod__",       "__pow__",      "__matmul__",
    "__rmatmul__", "__and__",       "__or__",       "__xor__",       "__neg__",      "__invert__",
    "__abs__",     "__iadd__",      "__rpow__",     "__round__",     "__reversed__", "__lshift__",
    "__rshift__",  "__rfloordiv__", "__rmod__",     "__pos__",       "__imul__",     "__isub__",
    "__rlshift__", "__rrshift__",   "__rand__",     "__ror__",       "__rxor__",     "__divmod__",
    "__rdivmod__", "__imatmul__",   "__itruediv__", "__ifloordiv__", "__imod__",     "__ipow__",
    "__ilshift__", "__irshift__",   "__iand__",     "__ior__",       "__ixor__",     "__complex__",
    "__trunc__",   "__floor__",     "__ceil__",     "__missing__",   "__bytes__",    "__torch_function__"};

// own: those of the libraries do not count.
bool type_has_python_specials(PyTypeObject* type, bool own) {
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return false;
  for (const char* name : kSpecials) {
    PyObject* found = _PyType_Lookup(type, interned(name));
    // Of a subclass of tensors that has none of its own __torch_function__ is a function of C.
    if (!found || is_descriptor_of_c(found) || (PyCFunction_Check(found) && !strcmp(name, "__torch_function__")))
      continue;
    if (own && PyFunction_Check(found) && is_library_namespace(PyFunction_GET_GLOBALS(found))) continue;
    if (found != Py_None || strcmp(name, "__hash__") != 0) return true;
  }
  return false;
}

}  // namespace

bool Simulator::has_python_specials(PyObject* obj) {
  PyTypeObject* type = Py_TYPE(obj);
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return false;
  auto [it, fresh] = specials_.try_emplace(type, false);
  if (!fresh || is_tensor(obj) || is_plain_data(obj)) return it->second;
  // Of enumerations and metaclasses, the libraries' methods look up, compare and hash alone.
  const bool constant = is_identity_constant(obj);
  it->second = type_has_python_specials(type, constant);
  if (!it->second && !constant)
    for (const char* name : kSpecials) lookup_type(type, interned(name));  // it may get some
  return it->second;
}

bool Simulator::has_own_special(PyObject* obj, const char* name) {
  if (!is_tensor(obj)) return false;
  PyObject* found = lookup_type(Py_TYPE(obj), interned(name));
  return found && PyFunction_Check(found) && !is_library_namespace(PyFunction_GET_GLOBALS(found));
}

bool Simulator::is_outside_opaque(PyObject* obj) {
  const Outside* outside = world_.find(obj);
  return outside && outside->kind == OutsideKind::kOpaque;
}

namespace {

// An instance of a subclass of a builtin data type: C code reads what no guard looks at.
bool carries_data(PyObject* obj) {
  return PyLong_Check(obj) || PyFloat_Check(obj) || PyUnicode_Check(obj) || PyBytes_Check(obj) ||
         PyComplex_Check(obj) || PyTuple_Check(obj) || PyList_Check(obj) || PyDict_Check(obj) || PyAnySet_Check(obj) ||
         PyByteArray_Check(obj);
}

}  // namespace

void require_no_hidden_data(Simulator& sim, PyObject* obj) {
  if (sim.is_outside_opaque(obj) && carries_data(obj))
    sim.stop(StopReason::kUnsupportedValue,
             fmt::format("a '{}' of the program is handed to C code", Py_TYPE(obj)->tp_name));
}

namespace {

void require_plain_value(Simulator& sim, PyObject* obj, int depth, bool numbers) {
  if (sim.world().is_number(obj)) {
    if (numbers) return;
    sim.stop(StopReason::kDataDependentValue, "a number of the graph is handed to C code");
  }
  sim.world().require_followed(obj);
  sim.world().rely_on_identity(obj);
  if (is_plain_data(obj) || sim.is_tensor(obj)) return;
  if (is_identity_constant(obj) && !sim.has_python_specials(obj)) return;
  if (is_sim_traceback(obj)) sim.stop_before_raise(StopReason::kUnsupportedValue, sim_traceback_origin(obj));
  if (sim.has_python_specials(obj))
    sim.stop(StopReason::kUnsupportedValue,
             fmt::format("a '{}' with special methods in Python is handed to C code", Py_TYPE(obj)->tp_name));
  require_no_hidden_data(sim, obj);
  if (sim.is_outside_opaque(obj) && native_base(Py_TYPE(obj)) != &PyBaseObject_Type && !PyMethod_Check(obj))
    sim.stop(StopReason::kUnsupportedValue,
             fmt::format("a '{}' of the program is handed to C code", Py_TYPE(obj)->tp_name));
  if (depth > 6) return;
  if (PyTuple_CheckExact(obj) || PyList_CheckExact(obj)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(obj); ++i)
      require_plain_value(sim, PySequence_Fast_GET_ITEM(obj, i), depth + 1, numbers);
  } else if (PyDict_CheckExact(obj)) {
    PyObject *key, *value;
    for (Py_ssize_t pos = 0; PyDict_Next(obj, &pos, &key, &value);) require_plain_value(sim, value, depth + 1, numbers);
  } else if (!strcmp(Py_TYPE(obj)->tp_name, "collections.deque")) {
    PyObject* items = sim.keep(sim.check(PySequence_List(obj)));
    require_plain_value(sim, items, depth, numbers);
  } else if (PySlice_Check(obj)) {
    auto* slice = reinterpret_cast<PySliceObject*>(obj);
    for (PyObject* part : {slice->start, slice->stop, slice->step}) require_plain_value(sim, part, depth + 1, numbers);
  }
}

}  // namespace

void Simulator::require_plain(const CallArgs& args, PyObject*, bool numbers) {
  for (const SymValue& value : args.positional) require_plain_value(*this, value.get(), 0, numbers);
  for (const auto& [name, value] : args.keywords) require_plain_value(*this, value.get(), 0, numbers);
}

}  // namespace framejit
