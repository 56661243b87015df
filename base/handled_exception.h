// What the running thread is handling.
#pragma once

#include "base/py_ref.h"

namespace framejit {

// Whether code that runs now stands in an `except` or `finally` that an exception entered: its own or a caller's.
inline bool is_handling_exception() {
  PyObject *type, *value, *traceback;
  PyErr_GetExcInfo(&type, &value, &traceback);
  Ref held_type = Ref::steal(type), held = Ref::steal(value), held_traceback = Ref::steal(traceback);
  return held && held.get() != Py_None;
}

}  // namespace framejit
