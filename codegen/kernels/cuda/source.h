// From a kernel to CUDA text. One text serves all sizes and strides: they are arguments, see kernels/cuda/launch.h.
#pragma once

#include <string>

#include "codegen/kernels/kernel.h"
#include "codegen/kernels/loop.h"

namespace framejit::codegen {

struct CudaSource {
  std::string name;  // of the function
  std::string text;  // that of the prelude first
};

// Where the shape of a kernel's text comes from, beside its steps.
struct CudaShape {
  size_t dimensions;  // of the loop
  bool wide;          // more elements than 32 bits count
};
CudaShape cuda_shape(const Loop& loop);

// Threads of a block, at most.
constexpr unsigned kCudaThreads = 256;

// A kernel without reductions: one element of the loop for each thread at a time. One with reductions: the threads of a
// block's line share a row, and each level of reductions is one more pass over it.
CudaSource cuda_source(const Kernel& kernel, const CudaShape& shape);

bool has_reductions(const Kernel& kernel);

}  // namespace framejit::codegen
