#include "runtime/torch/py_tensor.h"

#include <torch/csrc/autograd/python_variable.h>

#include <cstring>

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

bool tensor_matches(PyObject* tensor, const graph::TensorFacts& facts) {
  if (!is_tensor_object(tensor)) return false;
  const at::Tensor& value = THPVariable_Unpack(tensor);
  const c10::TensorImpl* impl = value.unsafeGetTensorImpl();
  if (impl->key_set().raw_repr() != facts.key_set) return false;
  const graph::TensorMeta& meta = facts.meta;
  if (static_cast<uint8_t>(c10::typeMetaToScalarType(impl->dtype())) != static_cast<uint8_t>(meta.dtype)) return false;
  auto same = [](c10::IntArrayRef a, const graph::DimVector& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), b.size() * sizeof(int64_t)) == 0;
  };
  if (!same(impl->sizes(), meta.sizes) || !same(impl->strides(), meta.strides)) return false;
  if (impl->storage_offset() != meta.storage_offset) return false;
  if (impl->requires_grad() != meta.requires_grad) return false;
  if (!meta.device.is_cpu() && impl->device().index() != meta.device.index) return false;
  if (meta.requires_grad && value.is_leaf() != facts.is_leaf_with_grad_fn_free) return false;
  return true;
}

}  // namespace framejit::torchlib
