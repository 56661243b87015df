#include "runtime/guards/attribute_place.h"

#include <structmember.h>

#include <array>
#include <cstddef>

namespace framejit::runtime {
namespace {

struct Row {
  const char* name;
  size_t offset;
  bool empty_is_none;
};

constexpr std::array kOfFunctions = {
    Row{"__code__", offsetof(PyFunctionObject, func_code), false},
    Row{"__defaults__", offsetof(PyFunctionObject, func_defaults), true},
    Row{"__kwdefaults__", offsetof(PyFunctionObject, func_kwdefaults), true},
    Row{"__annotations__", offsetof(PyFunctionObject, func_annotations), false},
};

constexpr std::array kOfClasses = {
    Row{"__name__", offsetof(PyHeapTypeObject, ht_name), false},
    Row{"__qualname__", offsetof(PyHeapTypeObject, ht_qualname), false},
};

template <class Rows>
AttributePlace find(PyObject* base, PyObject* name, const Rows& rows) {
  for (const Row& row : rows)
    if (PyUnicode_CompareWithASCIIString(name, row.name) == 0)
      return {reinterpret_cast<PyObject* const*>(reinterpret_cast<const char*>(base) + row.offset), row.empty_is_none};
  return {};
}

// As __slots__ keeps it.
AttributePlace in_slot(PyObject* base, PyObject* descriptor) {
  const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member;
  if (member->type != T_OBJECT_EX || (member->flags & ~READONLY) || member->offset <= 0) return {};
  return {reinterpret_cast<PyObject* const*>(reinterpret_cast<const char*>(base) + member->offset)};
}

// A class that Python code has made. Its metaclass may answer in its own way.
AttributePlace in_class(PyObject* base, PyObject* name, PyObject* descriptor) {
  auto* type = reinterpret_cast<PyTypeObject*>(base);
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || descriptor != _PyType_Lookup(&PyType_Type, name)) return {};
  if (PyUnicode_CompareWithASCIIString(name, "__module__") == 0) return {nullptr, false, type};
  return find(base, name, kOfClasses);
}

}  // namespace

AttributePlace place_of_attribute(PyObject* base, PyObject* name) {
  PyObject* descriptor = _PyType_Lookup(Py_TYPE(base), name);
  if (!descriptor) return {};
  if (Py_TYPE(descriptor) == &PyMemberDescr_Type) return in_slot(base, descriptor);
  if (Py_TYPE(base) == &PyFunction_Type) return find(base, name, kOfFunctions);
  return PyType_Check(base) ? in_class(base, name, descriptor) : AttributePlace{};
}

}  // namespace framejit::runtime
