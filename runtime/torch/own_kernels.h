// Operators that a plan computes itself, to the bit as LibTorch's kernel on the CPU does, where that is faster.
#pragma once

#include <ATen/core/stack.h>

#include <string_view>

namespace framejit::torchlib {

// Replaces the operator's arguments, the last of the stack, by its results. False: it was not done, LibTorch's kernel
// has to.
using OwnKernel = bool (*)(torch::jit::Stack& stack);

// Null: there is none.
OwnKernel find_own_kernel(std::string_view op);

}  // namespace framejit::torchlib
