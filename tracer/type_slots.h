// What the C slots of a class tell: whether methods written in Python stand behind them.
#pragma once

#include <Python.h>

namespace framejit {

// Whether `==` on instances runs a method written in Python.
bool compares_in_python(PyTypeObject* type);

// The nearest tp_new along the bases that is not written in Python: object's own for instances without data that only C
// code sees. Null where no instance can be made.
newfunc native_new(PyTypeObject* type);

}  // namespace framejit
