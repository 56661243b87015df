#include "runtime/python_util.h"

#include "tracer/type_slots.h"

namespace framejit::runtime {
Ref new_instance(PyTypeObject* type, PyObject* args) {
  Ref empty = args ? Ref::borrow(args) : Ref::steal(PyTuple_New(0));
  newfunc make = native_new(type);
  if (!make) {
    PyErr_Format(PyExc_TypeError, "cannot create '%.100s' instances", type->tp_name);
    return nullptr;
  }
  return Ref::steal(make(type, empty.get(), nullptr));
}

}  // namespace framejit::runtime
