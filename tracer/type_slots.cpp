#include "tracer/type_slots.h"

#include "base/check.h"
#include "base/once.h"
#include "base/py_ref.h"
#include "tracer/frame_builtins.h"

namespace framejit {
namespace {

// The slot functions that CPython puts into a class for methods written in Python, learnt from one such class.
struct PythonSlots {
  newfunc tp_new = nullptr;
  richcmpfunc tp_richcompare = nullptr;
  destructor tp_dealloc = nullptr;

  PythonSlots() {
    Ref globals = Ref::steal(PyDict_New());
    PyDict_SetItemString(globals.get(), "__builtins__", own_builtins());
    Ref done = Ref::steal(PyRun_String("class Probe:\n  def __new__(cls): pass\n  def __eq__(self, other): pass\n",
                                       Py_file_input, globals.get(), globals.get()));
    PyObject* probe = PyDict_GetItemString(globals.get(), "Probe");
    FJ_CHECK(done && probe && PyType_Check(probe), "cannot make the probe class");
    tp_new = reinterpret_cast<PyTypeObject*>(probe)->tp_new;
    tp_richcompare = reinterpret_cast<PyTypeObject*>(probe)->tp_richcompare;
    tp_dealloc = reinterpret_cast<PyTypeObject*>(probe)->tp_dealloc;
  }
};

const PythonSlots& python_slots() {
  return once_under_lock([] { return PythonSlots(); });
}

}  // namespace

void learn_python_slots() { python_slots(); }

PyTypeObject* native_base(PyTypeObject* type) {
  while ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) && type->tp_dealloc == python_slots().tp_dealloc) type = type->tp_base;
  return type;
}

bool compares_in_python(PyTypeObject* type) { return type->tp_richcompare == python_slots().tp_richcompare; }

newfunc native_new(PyTypeObject* type) {
  while (type->tp_new == python_slots().tp_new && type->tp_base) type = type->tp_base;
  return type->tp_new;
}

}  // namespace framejit
