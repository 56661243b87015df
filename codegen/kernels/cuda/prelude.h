// What every kernel's CUDA text begins with.
#pragma once

namespace framejit::codegen {

// Functions on numbers of the types that kernels know, in plain C++ beside CUDA's mathematical functions: a compiler
// for the host takes it too, given `__device__` and those functions. It may stand in a text more than once.
extern const char* const kCudaPrelude;

}  // namespace framejit::codegen
