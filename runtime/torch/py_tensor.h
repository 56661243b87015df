// Python tensor objects, out of line: what torch's own headers for them cost is paid in one file.
#pragma once

#include <ATen/core/Tensor.h>

#include "base/py_ref.h"

namespace framejit::torchlib {

bool is_tensor_object(PyObject* obj);
// Of an object for which is_tensor_object holds.
const at::Tensor& unpack_tensor(PyObject* obj);
// New reference; the object that the tensor already has, if it has one. Throws.
PyObject* wrap_tensor(at::Tensor tensor);
// The tensor below all levels of torch.func. LibTorch's headers of those levels need others that no wheel has. Null if
// one is over.
Ref below_levels(PyObject* tensor);
// torch.Tensor itself, borrowed.
PyTypeObject* tensor_type();
PyTypeObject* parameter_type();

}  // namespace framejit::torchlib
