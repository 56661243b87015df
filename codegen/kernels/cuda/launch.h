// How a kernel's CUDA function is called: its arguments, as its text declares them, and its blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/kernels/kernel.h"
#include "codegen/kernels/loop.h"

namespace framejit::codegen {

constexpr size_t kMostCudaArguments = 4096 / sizeof(int64_t);  // of drivers and devices before CUDA 12.1

struct CudaLaunch {
  std::vector<int64_t> arguments;  // the one structure, by value; the buffers' addresses stand from the second on
  unsigned blocks;
  unsigned width;  // of a block: a power of two
  unsigned lines;  // of a block: rows
};

// Nothing with a reason: more arguments than a launch takes.
bool make_cuda_launch(const Kernel& kernel, const Loop& loop, CudaLaunch* launch, std::string* why_not);

}  // namespace framejit::codegen
