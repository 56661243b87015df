#pragma once

#include <Python.h>

namespace framejit {
// Adds the functions and types to the module; -1 with an exception set on failure.
int add_twin_bindings(PyObject* module);
}  // namespace framejit
