#include "runtime/dropped_code.h"

#include <string_view>

#include "base/py_ref.h"
#include "runtime/engine.h"

namespace framejit::runtime {
namespace {

constexpr long kOldestGeneration = 2;

PyObject* after_collection(PyObject*, PyObject* args) {
  const char* phase;
  PyObject* info;
  if (!PyArg_ParseTuple(args, "sO!", &phase, &PyDict_Type, &info)) return nullptr;
  if (std::string_view(phase) == "stop") {
    PyObject* generation = PyDict_GetItemString(info, "generation");  // borrowed
    if (generation && PyLong_AsLong(generation) == kOldestGeneration) engine().forget_dropped_code();
    if (PyErr_Occurred()) return nullptr;
  }
  Py_RETURN_NONE;
}

PyMethodDef method = {"after_collection", after_collection, METH_VARARGS,
                      "after_collection(phase, info)\n--\n\nLets go of code that the program has dropped."};

}  // namespace

bool listen_to_collections() {
  Ref listener = Ref::steal(PyCFunction_New(&method, nullptr));
  Ref gc = listener ? Ref::steal(PyImport_ImportModule("gc")) : nullptr;
  Ref callbacks = gc ? Ref::steal(PyObject_GetAttrString(gc.get(), "callbacks")) : nullptr;
  return callbacks && PyList_Append(callbacks.get(), listener.get()) == 0;
}

}  // namespace framejit::runtime
