#include "codegen/kernels/llvm/llvm_compiler.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <memory>
#include <vector>

#include "codegen/kernels/llvm/emit.h"
#include "codegen/kernels/llvm/target.h"

namespace framejit::codegen {

namespace {

// Kernels come as good vector code already: what is equal or idle goes, no more.
constexpr const char* kPasses = "early-cse,instcombine<no-verify-fixpoint>,simplifycfg";

using Context = std::unique_ptr<std::remove_pointer_t<LLVMContextRef>, decltype(&LLVMContextDispose)>;
using Module = std::unique_ptr<std::remove_pointer_t<LLVMModuleRef>, decltype(&LLVMDisposeModule)>;

bool took_error(LLVMErrorRef failure, std::string* error) {
  if (!failure) return false;
  char* message = LLVMGetErrorMessage(failure);
  *error = message;
  LLVMDisposeErrorMessage(message);
  return true;
}

const char* target() { return host_target().text.c_str(); }

const char* why_not() { return host_target().why_not.empty() ? nullptr : host_target().why_not.c_str(); }

bool is_well_formed(LLVMModuleRef module, std::string* error) {
  char* message = nullptr;
  const bool broken = LLVMVerifyModule(module, LLVMReturnStatusAction, &message) != 0;
  if (broken) *error = message;
  LLVMDisposeMessage(message);
  return !broken;
}

bool optimize(LLVMModuleRef module, std::string* error) {
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  const bool failed = took_error(LLVMRunPasses(module, kPasses, host_target().machine, options), error);
  LLVMDisposePassBuilderOptions(options);
  return !failed;
}

bool emit(const Kernel& kernel, const char* name, std::string* object, std::string* error) {
  const HostTarget& host = host_target();
  Context context(LLVMContextCreate(), &LLVMContextDispose);
  Module module(LLVMModuleCreateWithNameInContext(name, context.get()), &LLVMDisposeModule);
  LLVMSetTarget(module.get(), host.triple.c_str());
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(host.machine);
  LLVMSetModuleDataLayout(module.get(), layout);
  LLVMDisposeTargetData(layout);
  if (!emit_kernel(module.get(), kernel, name, host.wide, error) || !is_well_formed(module.get(), error) ||
      !optimize(module.get(), error))
    return false;
  char* message = nullptr;
  LLVMMemoryBufferRef code = nullptr;
  if (LLVMTargetMachineEmitToMemoryBuffer(host.machine, module.get(), LLVMObjectFile, &message, &code)) {
    *error = message;
    LLVMDisposeMessage(message);
    return false;
  }
  object->assign(LLVMGetBufferStart(code), LLVMGetBufferSize(code));
  LLVMDisposeMemoryBuffer(code);
  return true;
}

// Resolves what object files name and do not define.
LLVMErrorRef define_symbols(LLVMOrcDefinitionGeneratorRef, void* resolve, LLVMOrcLookupStateRef*, LLVMOrcLookupKind,
                            LLVMOrcJITDylibRef library, LLVMOrcJITDylibLookupFlags, LLVMOrcCLookupSet names,
                            size_t count) {
  std::vector<LLVMOrcCSymbolMapPair> found;
  for (size_t i = 0; i < count; ++i) {
    void* address = reinterpret_cast<SymbolResolver>(resolve)(LLVMOrcSymbolStringPoolEntryStr(names[i].Name));
    if (!address) continue;
    LLVMOrcRetainSymbolStringPoolEntry(names[i].Name);
    found.push_back(
        {names[i].Name, {reinterpret_cast<LLVMOrcExecutorAddress>(address), {LLVMJITSymbolGenericFlagsExported, 0}}});
  }
  if (found.empty()) return nullptr;
  return LLVMOrcJITDylibDefine(library, LLVMOrcAbsoluteSymbols(found.data(), found.size()));
}

// One for the process, never ended: kernels may run on any thread until it ends.
LLVMOrcLLJITRef jit(SymbolResolver resolve, std::string* error) {
  static std::string failure;
  static LLVMOrcLLJITRef instance = [resolve] {
    host_target();
    LLVMOrcLLJITRef made = nullptr;
    if (took_error(LLVMOrcCreateLLJIT(&made, nullptr), &failure)) return LLVMOrcLLJITRef{};
    LLVMOrcJITDylibAddGenerator(
        LLVMOrcLLJITGetMainJITDylib(made),
        LLVMOrcCreateCustomCAPIDefinitionGenerator(&define_symbols, reinterpret_cast<void*>(resolve), nullptr));
    return made;
  }();
  if (!instance) *error = failure;
  return instance;
}

KernelFunction load(const std::string& object, const char* name, SymbolResolver resolve, std::string* error) {
  LLVMOrcLLJITRef compiler = jit(resolve, error);
  if (!compiler) return nullptr;
  LLVMMemoryBufferRef code = LLVMCreateMemoryBufferWithMemoryRangeCopy(object.data(), object.size(), name);
  LLVMOrcExecutorAddress address = 0;
  if (took_error(LLVMOrcLLJITAddObjectFile(compiler, LLVMOrcLLJITGetMainJITDylib(compiler), code), error) ||
      took_error(LLVMOrcLLJITLookup(compiler, &address, name), error))
    return nullptr;
  return reinterpret_cast<KernelFunction>(address);
}

constexpr LlvmCompiler kCompiler = {&target, &why_not, &emit, &load};

}  // namespace

}  // namespace framejit::codegen

extern "C" __attribute__((visibility("default"))) const framejit::codegen::LlvmCompiler* framejit_llvm_compiler() {
  return &framejit::codegen::kCompiler;
}
