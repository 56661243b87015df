#include "runtime/torch/py_tensor.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "graph/capture.h"
#include "runtime/torch/convert.h"
#include "runtime/torch/torch_host.h"

namespace framejit::torchlib {

bool is_tensor_object(PyObject* obj) {
  if (THPVariable_CheckExact(obj)) return true;
  return THPVariableClass && PyType_IsSubtype(Py_TYPE(obj), reinterpret_cast<PyTypeObject*>(THPVariableClass));
}

const at::Tensor& unpack_tensor(PyObject* obj) { return THPVariable_Unpack(obj); }

PyObject* wrap_tensor(at::Tensor tensor) { return THPVariable_Wrap(std::move(tensor)); }

PyTypeObject* tensor_type() { return reinterpret_cast<PyTypeObject*>(THPVariableClass); }
PyTypeObject* parameter_type() { return reinterpret_cast<PyTypeObject*>(ParameterClass); }

}  // namespace framejit::torchlib
