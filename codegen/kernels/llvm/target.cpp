#include "codegen/kernels/llvm/target.h"

#include <fmt/format.h>
#include <llvm-c/Core.h>
#include <llvm-c/Target.h>

namespace framejit::codegen {

namespace {

std::string take(char* text) {
  std::string taken = text;
  LLVMDisposeMessage(text);
  return taken;
}

bool has(const std::string& features, const char* feature) {
  return ("," + features + ",").find("," + std::string(feature) + ",") != std::string::npos;
}

HostTarget make() {
  HostTarget host;
  LLVMInitializeNativeTarget();
  LLVMInitializeNativeAsmPrinter();
  host.triple = take(LLVMGetDefaultTargetTriple());
  host.cpu = take(LLVMGetHostCPUName());
  host.features = take(LLVMGetHostCPUFeatures());
  unsigned major, minor, patch;
  LLVMGetVersion(&major, &minor, &patch);
  host.text = fmt::format("llvm {}.{}.{} {} {} {}", major, minor, patch, host.triple, host.cpu, host.features);
  host.wide = has(host.features, "+avx512f") && has(host.features, "+avx512bw") && has(host.features, "+avx512vl") &&
              has(host.features, "+avx512dq");
  // The vector functions that kernels call are LibTorch's, which has these for x86-64.
  if (!has(host.features, "+avx2") || !has(host.features, "+fma")) {
    host.why_not = "kernels need a processor with AVX2 and FMA, this one is " + host.cpu;
    return host;
  }
  LLVMTargetRef target;
  char* error = nullptr;
  if (LLVMGetTargetFromTriple(host.triple.c_str(), &target, &error)) {
    host.why_not = take(error);
    return host;
  }
  host.machine = LLVMCreateTargetMachine(target, host.triple.c_str(), host.cpu.c_str(), host.features.c_str(),
                                         LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelDefault);
  return host;
}

}  // namespace

const HostTarget& host_target() {
  static const HostTarget host = make();
  return host;
}

}  // namespace framejit::codegen
