// Where frames look up the names of builtins.
#pragma once

#include "base/py_ref.h"

namespace framejit {

// The dictionary of the module `builtins`, the only one that captured code reads builtins from. Where a frame has
// another one, as that of a named tuple's __new__ does, its code may read its module's names alone.
PyObject* own_builtins();

// What the `__builtins__` of a module stands for: a dictionary, or null.
PyObject* builtins_named_by(PyObject* value);

// The dictionary that a call of `function` from the running frame takes. From 3.10 on a function keeps the one that it
// was made with; before, a frame asks the module, or shares that of a caller from the same module. Null where the frame
// would get a dictionary of its own.
PyObject* builtins_of_call(PyObject* function);

}  // namespace framejit
