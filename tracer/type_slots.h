// What the C slots of a class tell: whether methods written in Python stand behind them.
#pragma once

#include <Python.h>

namespace framejit {

// To be called before the first capture: it makes a class, which no capture may.
void learn_python_slots();

// The first base that is not written in Python. Types that C++ code makes at run time (pybind11's) are heap types too,
// but have a tp_dealloc of their own.
PyTypeObject* native_base(PyTypeObject* type);

// Whether `==` on instances runs a method written in Python.
bool compares_in_python(PyTypeObject* type);

// The nearest tp_new along the bases that is not written in Python: object's own for instances without data that only C
// code sees. Null where no instance can be made.
newfunc native_new(PyTypeObject* type);

}  // namespace framejit
