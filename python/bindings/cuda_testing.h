// Functions of `framejit._C._testing` for kernels on CUDA devices.
#pragma once

#include <Python.h>

namespace framejit {

// cuda_kernels(text of a graph) -> list of str: the CUDA texts of the kernels that its nodes fuse to
PyObject* cuda_kernels_of(PyObject*, PyObject* text);

// compile_cuda(text, architecture) -> bytes: NVRTC's machine code; RuntimeError with its reason
PyObject* compile_cuda_text(PyObject*, PyObject* args);

// use_cuda_libraries(nvrtc, driver): files in the place of CUDA's own libraries, until they are named ""
PyObject* use_cuda_libraries(PyObject*, PyObject* args);

// collect_cuda(folder or None): the CUDA text of each kernel that is made from now on, whatever device it is for,
// becomes a file in the folder
PyObject* collect_cuda(PyObject*, PyObject* folder);

}  // namespace framejit
