#include "runtime/guards/plain_data.h"

#include <bit>
#include <cstdint>
#include <initializer_list>

#include "base/py_ref.h"
#include "tracer/type_slots.h"

namespace framejit::runtime {
namespace {

bool same_bits(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

bool same_items(PyObject* a, PyObject* b) {
  Py_ssize_t size = PyTuple_GET_SIZE(a);
  if (size != PyTuple_GET_SIZE(b)) return false;
  for (Py_ssize_t i = 0; i < size; ++i)
    if (!same_plain_data(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
  return true;
}

bool same_fields(PyObject* a, PyObject* b, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    Ref x = Ref::steal(PyObject_GetAttrString(a, name)), y = Ref::steal(PyObject_GetAttrString(b, name));
    if (!x || !y) PyErr_Clear();
    if (!x || !y || !same_plain_data(x.get(), y.get())) return false;
  }
  return true;
}

bool compare_in_c(PyObject* a, PyObject* b) {
  if (compares_in_python(Py_TYPE(a))) return false;
  int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal > 0;
}

bool is_referent(PyObject* obj, PyObject* reference) {
  return obj != Py_None && obj == reinterpret_cast<PyWeakReference*>(reference)->wr_object;
}

}  // namespace

bool same_plain_data(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (b != nullptr && PyWeakref_CheckRefExact(b)) return is_referent(a, b);
  if (a == nullptr || b == nullptr || Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyFloat_CheckExact(a)) return same_bits(PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b));
  if (PyComplex_CheckExact(a)) {
    Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
    return same_bits(x.real, y.real) && same_bits(x.imag, y.imag);
  }
  if (PyTuple_Check(a)) return same_items(a, b);
  if (PyFrozenSet_Check(a)) {  // their order may have been seen
    Ref x = Ref::steal(PySequence_Tuple(a)), y = Ref::steal(PySequence_Tuple(b));
    if (!x || !y) PyErr_Clear();
    return x && y && same_items(x.get(), y.get());
  }
  if (PyRange_Check(a)) return same_fields(a, b, {"start", "stop", "step"});  // equal ones give the same numbers
  if (PySlice_Check(a)) {
    auto* x = reinterpret_cast<PySliceObject*>(a);
    auto* y = reinterpret_cast<PySliceObject*>(b);
    return same_plain_data(x->start, y->start) && same_plain_data(x->stop, y->stop) &&
           same_plain_data(x->step, y->step);
  }
  return compare_in_c(a, b);
}

}  // namespace framejit::runtime
