// StaticFunction: the Python object that to_static() gives. Calling it checks the guards of what was captured, runs the
// graph and replays the rest, without a Python frame; a function that breaks runs through its twin.
#pragma once

#include "base/py_ref.h"
#include "runtime/cache/code_cache.h"

namespace framejit::runtime {

// The type object, ready to be put into a module; null with a Python error.
PyTypeObject* static_function_type();

// For a function or a bound method of one; any other callable is a TypeError. `backend` may be null.
Ref make_static_function(PyObject* callable, bool full_graph, PyObject* backend);

bool is_static_function(PyObject* obj);
// The callable that it stands for, borrowed; null if `obj` is no StaticFunction.
PyObject* static_function_target(PyObject* obj);
// Null before the first call that could capture.
std::shared_ptr<CodeCache> static_function_cache(PyObject* obj);

// Raised by full_graph=True; RuntimeError until the bindings set it.
void set_graph_break_error_type(PyObject* type);

}  // namespace framejit::runtime
