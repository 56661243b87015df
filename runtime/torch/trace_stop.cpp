#include "runtime/torch/trace_stop.h"

#include <torch/csrc/Exceptions.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/once.h"
#include "base/py_ref.h"

namespace framejit::torchlib {

PyObject* trace_stop_type() {
  return once_under_lock([] { return PyErr_NewException("framejit._TraceStop", PyExc_BaseException, nullptr); });
}

void stop_trace(const char* reason, const std::string& detail) {
  pybind11::gil_scoped_acquire gil;
  if (PyObject* type = trace_stop_type()) {
    Ref args = Ref::steal(Py_BuildValue("(ss)", reason, detail.c_str()));
    if (args) PyErr_SetObject(type, args.get());
  }
  python_error error;
  error.persist();
  throw error;
}

namespace {

// What LibTorch says of a tensor without memory (c10/core/TensorImpl.h, c10/core/StorageImpl.cpp).
constexpr std::array kNoMemoryTexts = {"data is not allocated yet", "Cannot access data pointer of Tensor"};

// Kernels above the dispatcher's Fake key, such as max_pool1d's without gradients, look at the memory of a fake
// themselves. The real tensor has what they look for, so that the error is none of the program's.
bool is_error_of_fake_memory(PyObject* value) {
  Ref text = Ref::steal(PyObject_Str(value));
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (!utf8) PyErr_Clear();
  return utf8 && std::any_of(kNoMemoryTexts.begin(), kNoMemoryTexts.end(),
                             [&](const char* known) { return std::strstr(utf8, known) != nullptr; });
}

bool take_error_of_fake_memory(std::string* reason, std::string* detail) {
  if (PyErr_Occurred() != PyExc_RuntimeError) return false;  // not of a class whose __str__ is the program's
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (!value || !is_error_of_fake_memory(value)) {
    PyErr_Restore(type, value, traceback);
    return false;
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  *reason = "DataDependentValue";
  *detail = "a function of LibTorch looks at the data of a tensor itself";
  return true;
}

}  // namespace

bool take_trace_stop(std::string* reason, std::string* detail) {
  PyObject* expected = trace_stop_type();
  if (!expected) return false;
  if (!PyErr_ExceptionMatches(expected)) return take_error_of_fake_memory(reason, detail);
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Ref owned_type = Ref::steal(type), owned_value = Ref::steal(value), owned_traceback = Ref::steal(traceback);
  Ref args = Ref::steal(value ? PyObject_GetAttrString(value, "args") : nullptr);
  auto text = [&](Py_ssize_t i) -> std::string {
    if (!args || !PyTuple_Check(args.get()) || PyTuple_GET_SIZE(args.get()) <= i) return {};
    const char* utf8 = PyUnicode_AsUTF8(PyTuple_GET_ITEM(args.get(), i));
    return utf8 ? utf8 : "";
  };
  *reason = text(0);
  *detail = text(1);
  PyErr_Clear();
  return true;
}

namespace {

// torch's macros want a function that returns a pointer.
void* translated(bool (*f)(void*), void* context) {
  HANDLE_TH_ERRORS
  return f(context) ? context : nullptr;
  END_HANDLE_TH_ERRORS
}

}  // namespace

bool translate_errors(bool (*f)(void*), void* context) { return translated(f, context) != nullptr; }

}  // namespace framejit::torchlib
