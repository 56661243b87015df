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

// A new empty instance without running Python code. Null with a Python error.
Ref new_instance(PyTypeObject* type, PyObject* args = nullptr);

// A list of what make(item), a Ref, gives for each item. Null with a Python error.
template <class Items, class Make>
Ref list_of(const Items& items, Make make) {
  Ref list = Ref::steal(PyList_New(0));
  for (const auto& item : items) {
    Ref made = list ? make(item) : nullptr;
    if (!made || PyList_Append(list.get(), made.get()) < 0) return nullptr;
  }
  return list;
}

}  // namespace framejit::runtime
