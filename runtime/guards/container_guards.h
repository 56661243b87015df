// What guards ask of containers. They leave no Python error, and run no Python code but that of a set's own type.
#pragma once

#include <Python.h>

#include <cstdint>

namespace framejit::runtime {

// `keys`: a tuple, in the dictionary's order.
bool keys_equal(PyObject* dict, PyObject* keys);
bool length_is(PyObject* obj, uint64_t expected);
// `expected`: the items in the order in which the set gives them, which the trace may have seen; `shape`: of its table.
bool set_gives(PyObject* set, PyObject* expected, uint64_t shape);

}  // namespace framejit::runtime
