// Equality of immutable plain data as guards mean it: the same type, floats by their bits, containers item by item.
#pragma once

#include <Python.h>

namespace framejit::runtime {

// Runs no Python code: objects whose comparison is written in Python are equal only if they are identical.
// A weak reference among what is expected stands for its object.
bool same_plain_data(PyObject* a, PyObject* b);

}  // namespace framejit::runtime
