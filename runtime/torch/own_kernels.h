// Operators that a plan computes otherwise than by LibTorch's kernel for the CPU, where that is faster.
#pragma once

#include <ATen/core/stack.h>

#include <string_view>

namespace framejit::torchlib {

// Replaces the operator's arguments, the last of the stack, by its results. False: it was not done, LibTorch's kernel
// has to.
using OwnKernel = bool (*)(torch::jit::Stack& stack);

// What a plan allows them.
enum class Numbers : uint8_t {
  kToTheBit,  // LibTorch's
  kRounded,   // within the tolerances of kernels
};

struct OwnKernelRow {
  std::string_view op;
  OwnKernel kernel;
  Numbers numbers;
};

// Null: there is none.
const OwnKernelRow* find_own_kernel(std::string_view op);

}  // namespace framejit::torchlib
