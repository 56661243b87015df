#include "runtime/python_util.h"

#include <cstdlib>
#include <cstring>

#include "tracer/type_slots.h"

namespace framejit::runtime {
namespace {

int minor_version() {
  static const int minor = std::atoi(std::strchr(Py_GetVersion(), '.') + 1);
  return minor;
}

}  // namespace

bool dict_version_is_reliable(PyObject* dict) {
  return minor_version() < 13 || reinterpret_cast<PyDictObject*>(dict)->ma_values == nullptr;
}

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
