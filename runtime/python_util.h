// Small facts about CPython objects that the runtime needs in several places. Nothing here tests the version at
// compile time.
#pragma once

#include "base/py_ref.h"

namespace framejit::runtime {

// The value changes with each change of the dictionary, and no two dictionaries share one.
inline uint64_t dict_version(PyObject* dict) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
#pragma GCC diagnostic pop
}

// Whether dict_version tells of every change. From 3.13 on, attribute writes to an instance whose dictionary shares its
// keys with the class leave the version as it is.
bool dict_version_is_reliable(PyObject* dict);

// Nonzero while what the type's method-resolution order gives for any name is what it was when the same value was seen.
inline uint64_t type_version(PyTypeObject* type) {
  return (type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
}

// Whether `==` on instances runs a method written in Python.
bool compares_in_python(PyTypeObject* type);

// The nearest tp_new along the bases that is not written in Python.
newfunc native_new(PyTypeObject* type);

// A new empty instance without running Python code. Null with a Python error.
Ref new_instance(PyTypeObject* type, PyObject* args = nullptr);

}  // namespace framejit::runtime
