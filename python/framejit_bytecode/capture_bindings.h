#pragma once

#include <Python.h>

namespace framejit {
// Adds the functions to the module; -1 with an exception set on failure.
int add_capture_bindings(PyObject* module);
}  // namespace framejit
