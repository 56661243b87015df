#include "runtime/torch/py_tensor.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "base/once.h"
#include "graph/capture.h"
#include "runtime/torch/convert.h"
#include "runtime/torch/fake_tensor.h"
#include "runtime/torch/torch_host.h"

namespace framejit::torchlib {

bool is_tensor_object(PyObject* obj) {
  if (THPVariable_CheckExact(obj)) return true;
  return THPVariableClass && PyType_IsSubtype(Py_TYPE(obj), reinterpret_cast<PyTypeObject*>(THPVariableClass));
}

const at::Tensor& unpack_tensor(PyObject* obj) { return THPVariable_Unpack(obj); }

PyObject* wrap_tensor(at::Tensor tensor) { return THPVariable_Wrap(std::move(tensor)); }

Ref below_levels(PyObject* tensor) {
  Ref below = Ref::borrow(tensor);
  while (is_of_level(unpack_tensor(below.get()))) {
    PyObject* unwrap = once_under_lock([] {
      Ref module = Ref::steal(PyImport_ImportModule("torch._C._functorch"));
      return module ? PyObject_GetAttrString(module.get(), "get_unwrapped") : nullptr;
    });
    Ref next = unwrap ? Ref::steal(PyObject_CallFunctionObjArgs(unwrap, below.get(), nullptr)) : nullptr;
    if (!next) {
      PyErr_Clear();
      return nullptr;
    }
    below = std::move(next);
  }
  return below;
}

PyTypeObject* tensor_type() { return reinterpret_cast<PyTypeObject*>(THPVariableClass); }
PyTypeObject* parameter_type() { return reinterpret_cast<PyTypeObject*>(ParameterClass); }

}  // namespace framejit::torchlib
