// The processor that this process runs on, as LLVM knows it.
#pragma once

#include <llvm-c/TargetMachine.h>

#include <string>

namespace framejit::codegen {

struct HostTarget {
  LLVMTargetMachineRef machine = nullptr;
  std::string triple, cpu, features;
  std::string text;     // all of it, with LLVM's version
  std::string why_not;  // empty: kernels can be compiled
  bool wide = false;    // AVX-512
};

const HostTarget& host_target();

}  // namespace framejit::codegen
