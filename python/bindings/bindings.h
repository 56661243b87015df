// One function per topic adds its names to the extension framejit._C. Each returns 0, or -1 with a Python error.
#pragma once

#include <Python.h>

namespace framejit {

int add_static_function_bindings(PyObject* module);
int add_engine_bindings(PyObject* module);
int add_graph_bindings(PyObject* module);
int add_kernel_bindings(PyObject* module);

}  // namespace framejit
