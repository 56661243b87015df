// From a kernel to a module of LLVM's IR.
#pragma once

#include <llvm-c/Core.h>

#include <string>

#include "codegen/kernels/kernel.h"

namespace framejit::codegen {

// Adds the function `name` with the signature KernelFunction to the module. False with a reason.
bool emit_kernel(LLVMModuleRef module, const Kernel& kernel, const char* name, bool wide, std::string* error);

}  // namespace framejit::codegen
