// The library that makes machine code of kernels. It is one of its own, libframejit_llvm.so, so that a process which
// compiles nothing does not load LLVM, and a build without LLVM has all but this. Built with the same compiler and
// flags as the code that loads it: C++ types may cross.
#pragma once

#include <cstddef>
#include <string>

#include "codegen/kernels/kernel.h"

namespace framejit::codegen {

// Address of a function that machine code calls, or null.
using SymbolResolver = void* (*)(const char* name);

struct LlvmCompiler {
  // Of LLVM, with processor and features: machine code from one is not for another.
  const char* (*target)();
  // Why kernels cannot be compiled for this processor, or null.
  const char* (*why_not)();
  // An object file with the function `name`. False with a reason.
  bool (*emit)(const Kernel& kernel, const char* name, std::string* object, std::string* error);
  // The function, ready to be called. It stays for the life of the process. Null with a reason.
  KernelFunction (*load)(const std::string& object, const char* name, SymbolResolver resolve, std::string* error);
};

}  // namespace framejit::codegen

// What the library exports.
extern "C" const framejit::codegen::LlvmCompiler* framejit_llvm_compiler();
