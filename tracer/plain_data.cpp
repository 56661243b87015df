#include "tracer/plain_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <unordered_set>
#include <vector>

#include "base/once.h"
#include "base/py_ref.h"
#include "tracer/signals.h"

namespace framejit {
namespace {

struct PlainType {
  PyTypeObject* type;
  bool by_identity;
};

std::vector<PlainType>& plain_types() {
  static auto* types = new std::vector<PlainType>;
  return *types;
}

const PlainType* find_plain_type(PyTypeObject* type) {
  for (const PlainType& row : plain_types())
    if (row.type == type) return &row;
  return nullptr;
}

}  // namespace

void add_plain_type(PyTypeObject* type, bool by_identity) {
  if (!find_plain_type(type)) plain_types().push_back({type, by_identity});
}

namespace {

constexpr int kDeepestTuple = 200;
constexpr int kDeepestFrozenSet = 4;
// Containers may share their parts so often that following each of them anew never ends: whoever copies plain data or
// compares it does so. One with more parts is a container of the program's.
constexpr int kMostParts = 100'000;

struct PlainBounds {
  int tuples = kDeepestTuple;
  int sets = kDeepestFrozenSet;
};

bool is_plain_within(PyObject* obj, PlainBounds bounds, int& parts);

bool all_plain(PyObject* items, PlainBounds bounds, int& parts) {
  if (bounds.tuples-- <= 0) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items); ++i)
    if (!is_plain_within(PyTuple_GET_ITEM(items, i), bounds, parts)) return false;
  return true;
}

bool is_plain_within(PyObject* obj, PlainBounds bounds, int& parts) {
  PyTypeObject* type = Py_TYPE(obj);
  if (--parts < 0) return false;
  if (obj == Py_None || obj == Py_Ellipsis || obj == Py_NotImplemented) return true;
  if (type == &PyLong_Type || type == &PyBool_Type || type == &PyFloat_Type || type == &PyUnicode_Type ||
      type == &PyBytes_Type || type == &PyComplex_Type || type == &PyRange_Type)
    return true;
  if (type == &PyTuple_Type) return all_plain(obj, bounds, parts);
  if (type == &PyFrozenSet_Type) {
    Ref items = bounds.sets-- > 0 ? Ref::steal(PySequence_Tuple(obj)) : Ref();
    return items && all_plain(items.get(), bounds, parts);
  }
  if (type == &PySlice_Type) {
    auto* slice = reinterpret_cast<PySliceObject*>(obj);
    const Ref ends = Ref::steal(PyTuple_Pack(3, slice->start, slice->stop, slice->step));
    return ends && all_plain(ends.get(), bounds, parts);
  }
  return find_plain_type(type) != nullptr;
}

}  // namespace

bool is_plain_data(PyObject* obj) {
  int parts = kMostParts;
  return is_plain_within(obj, {}, parts);
}

// The interpreter keeps one of each character up to U+00FF and of each byte, but some ways to make them take memory
// all the same: str() of a digit, bytes(1).
static bool is_kept_text(PyObject* text) {
  constexpr Py_UCS4 kLastKept = 0xff;
  if (PyUnicode_GET_LENGTH(text) != 1) return PyUnicode_GET_LENGTH(text) == 0;
  const Py_UCS4 character = PyUnicode_READ_CHAR(text, 0);
  return character <= kLastKept && Ref::steal(PyUnicode_FromOrdinal(static_cast<int>(character))).get() == text;
}

static bool is_kept_bytes(PyObject* bytes) {
  if (PyBytes_GET_SIZE(bytes) != 1) return PyBytes_GET_SIZE(bytes) == 0;
  return Ref::steal(PyBytes_FromStringAndSize(PyBytes_AS_STRING(bytes), 1)).get() == bytes;
}

bool has_equals(PyObject* plain) {
  constexpr long kFirstKept = -5, kLastKept = 256;
  PyTypeObject* type = Py_TYPE(plain);
  if (type == &PyUnicode_Type) return !PyUnicode_CHECK_INTERNED(plain) && !is_kept_text(plain);
  if (type == &PyLong_Type) {
    int overflow = 0;
    const long number = PyLong_AsLongAndOverflow(plain, &overflow);
    return overflow != 0 || number < kFirstKept || number > kLastKept;
  }
  if (type == &PyBytes_Type) return !is_kept_bytes(plain);
  if (type == &PyTuple_Type) return PyTuple_GET_SIZE(plain) != 0;
  if (type == &PyFrozenSet_Type) return PySet_GET_SIZE(plain) != 0;
  if (type == &PyFloat_Type || type == &PyComplex_Type || type == &PyRange_Type || type == &PySlice_Type) return true;
  const PlainType* row = find_plain_type(type);
  return row && !row->by_identity;
}

// Kept for ever. Null where the module has none.
static PyTypeObject* import_type(const char* module_name, const char* name) {
  Ref module = Ref::steal(PyImport_ImportModule(module_name));
  PyObject* type = module ? PyObject_GetAttrString(module.get(), name) : nullptr;
  if (!type) PyErr_Clear();
  return reinterpret_cast<PyTypeObject*>(type);
}

bool is_nan(PyObject* plain) {
  if (PyFloat_CheckExact(plain)) return std::isnan(PyFloat_AS_DOUBLE(plain));
  if (!PyComplex_CheckExact(plain)) return false;
  const Py_complex number = PyComplex_AsCComplex(plain);
  return std::isnan(number.real) || std::isnan(number.imag);
}

// Whether a look-up of its name in the class binds this method written in C, as another object each time. What super()
// gives of a method that the class overrides is not found so again.
static bool is_found_anew(PyObject* builtin, PyTypeObject* type) {
  if (!type->tp_mro) return false;  // a look-up would run the metaclass's mro()
  PyMethodDef* method = reinterpret_cast<PyCFunctionObject*>(builtin)->m_ml;
  Ref name = Ref::steal(PyUnicode_InternFromString(method->ml_name));
  auto has = [&](PyTypeObject* holder, PyTypeObject* kind) -> std::optional<bool> {
    PyObject* found = name ? _PyType_Lookup(holder, name.get()) : nullptr;
    if (!found) return std::nullopt;
    return Py_TYPE(found) == kind && reinterpret_cast<PyMethodDescrObject*>(found)->d_method == method;
  };
  if (const std::optional<bool> own = has(type, &PyClassMethodDescr_Type)) return *own;
  return has(Py_TYPE(type), &PyMethodDescr_Type).value_or(false);
}

bool is_identity_constant(PyObject* obj) {
  PyTypeObject* type = Py_TYPE(obj);
  if (PyType_Check(obj) || PyModule_Check(obj) || PyFunction_Check(obj) || PyCode_Check(obj)) return true;
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyGetSetDescr_Type ||
      type == &PyMemberDescr_Type || type == &PyClassMethodDescr_Type || type == &PyProperty_Type ||
      type == &PyClassMethod_Type || type == &PyStaticMethod_Type)
    return true;
  // A builtin function is a constant unless it is bound to an object of the program.
  if (PyCFunction_Check(obj)) {
    PyObject* self = PyCFunction_GET_SELF(obj);
    // pybind11 binds its functions to a record of its own.
    if (self && (PyCapsule_CheckExact(self) || strstr(Py_TYPE(self)->tp_name, "pybind11_detail_function_record")))
      return true;
    return !self || PyModule_Check(self) ||
           (PyType_Check(self) && !is_found_anew(obj, reinterpret_cast<PyTypeObject*>(self))) ||
           !strcmp(Py_TYPE(self)->tp_name, "torch._C._EngineBase");  // of backwards: there is one
  }
  const PlainType* row = find_plain_type(type);
  return (row && row->by_identity) || is_member_of_enumeration(obj);
}

bool is_member_of_enumeration(PyObject* obj) {
  PyTypeObject* enum_meta = once_under_lock([] { return import_type("enum", "EnumMeta"); });
  return enum_meta && PyObject_TypeCheck(reinterpret_cast<PyObject*>(Py_TYPE(obj)), enum_meta);
}

bool worth_watching(PyObject* obj) {
  if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(obj))) return false;
  if (PyType_Check(obj)) return (reinterpret_cast<PyTypeObject*>(obj)->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0;
  if (!PyCFunction_Check(obj)) return true;
  PyObject* self = PyCFunction_GET_SELF(obj);
  return !self || PyModule_Check(self) || PyType_Check(self);
}

bool is_typing_alias(PyObject* obj) {
  PyTypeObject* alias = once_under_lock([] { return import_type("typing", "_GenericAlias"); });
  return alias && PyObject_TypeCheck(obj, alias);
}

static PyTypeObject* generic_alias() {
  return once_under_lock([] { return import_type("types", "GenericAlias"); });
}

bool is_generic_alias(PyObject* obj) { return generic_alias() && Py_TYPE(obj) == generic_alias(); }

bool is_kind_of_generic_alias(PyObject* obj) { return generic_alias() && PyObject_TypeCheck(obj, generic_alias()); }

bool is_type_union(PyObject* obj) {
  PyTypeObject* type = once_under_lock([] { return import_type("types", "UnionType"); });
  return type && Py_TYPE(obj) == type;
}

namespace {

// Parts may be shared so often that following each of them anew never ends.
bool any_within(PyObject* plain, const std::function<bool(PyObject*)>& holds, std::unordered_set<PyObject*>& seen) {
  if (holds(plain)) return true;
  Ref items;
  if (PySlice_Check(plain)) {
    auto* slice = reinterpret_cast<PySliceObject*>(plain);
    items = Ref::steal(PyTuple_Pack(3, slice->start, slice->stop, slice->step));
  } else if (PyTuple_CheckExact(plain) || PyFrozenSet_CheckExact(plain)) {
    items = Ref::steal(PySequence_Tuple(plain));
  } else {
    return false;
  }
  if (!items) throw PythonRaised{};
  if (!seen.insert(plain).second) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i)
    if (any_within(PyTuple_GET_ITEM(items.get(), i), holds, seen)) return true;
  return false;
}

}  // namespace

bool any_within(PyObject* plain, const std::function<bool(PyObject*)>& holds) {
  std::unordered_set<PyObject*> seen;
  return any_within(plain, holds, seen);
}

}  // namespace framejit
