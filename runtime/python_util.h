// Small facts about CPython objects that the runtime needs in several places. Nothing here tests the version at
// compile time.
#pragma once

#include "base/py_ref.h"

namespace framejit::runtime {

// The value changes with each change of a dictionary that tells of them (eval_frame/watch.h), and no two share one.
inline const uint64_t* dict_version_at(PyObject* dict) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  return &reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
#pragma GCC diagnostic pop
}
inline uint64_t dict_version(PyObject* dict) { return *dict_version_at(dict); }

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
