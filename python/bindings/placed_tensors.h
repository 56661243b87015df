// Tensors that claim a device which this machine need not have, for tests of what the recorder makes of placement.
#pragma once

#include <Python.h>

namespace framejit {

// placed(tensor, device) -> Tensor: of the tensor's sizes, strides and type, on that device, without memory.
PyObject* placed_tensor(PyObject* self, PyObject* args);

// placed_over(tensor, device) -> Tensor: the same, over the tensor's own memory, which the host may touch whatever the
// device says.
PyObject* tensor_placed_over(PyObject* self, PyObject* args);

// pretend_cuda(count): LibTorch's questions about CUDA devices and streams are answered as with so many devices, all
// idle; nothing can run on them, and the handle of a device's stream is its index and 81. 0 puts back what was there.
PyObject* pretend_cuda(PyObject* self, PyObject* count);

}  // namespace framejit
