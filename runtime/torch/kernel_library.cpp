#include "runtime/torch/kernel_library.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <chrono>
#include <mutex>
#include <unordered_map>

#include "codegen/kernels/disk_cache.h"
#include "codegen/kernels/llvm/llvm_compiler.h"

namespace framejit::torchlib {

namespace {

// Beside the extension that this is part of.
std::string library_path() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&kernel_function), &info) || !info.dli_fname) return {};
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/') + 1) + "libframejit_llvm.so";
}

// Another build of the compiler may make other code of the same kernel.
std::string stamp_of(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return {};
  return std::to_string(status.st_size) + " " + std::to_string(status.st_mtim.tv_sec) + "." +
         std::to_string(status.st_mtim.tv_nsec);
}

// Python loads LibTorch for itself alone, so the process's symbols do not have it.
void* resolve(const char* name) {
  static void* torch = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  void* found = torch ? dlsym(torch, name) : nullptr;
  return found ? found : dlsym(RTLD_DEFAULT, name);
}

class KernelLibrary {
 public:
  KernelLibrary() : disk_(codegen::default_cache_folder(), kMostKernelBytesOnDisk) {
    const std::string path = library_path();
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char* error = dlerror();
      why_not_ = error ? error : "cannot load " + path;
      return;
    }
    auto entry = reinterpret_cast<decltype(&framejit_llvm_compiler)>(dlsym(library, "framejit_llvm_compiler"));
    if (!entry) {
      why_not_ = path + " is not framejit's";
      return;
    }
    compiler_ = entry();
    target_ = std::string(compiler_->target()) + "\n" + stamp_of(path) + "\n";
    if (const char* reason = compiler_->why_not()) why_not_ = reason;
  }

  const std::string& why_not() const { return why_not_; }
  const codegen::DiskCache& disk() const { return disk_; }

  KernelFunction function(const codegen::Kernel& kernel, std::string* reason) {
    if (!why_not_.empty()) {
      *reason = why_not_;
      return nullptr;
    }
    std::string text = codegen::to_string(kernel);
    std::lock_guard<std::mutex> lock(mutex_);
    auto [row, is_new] = functions_.try_emplace(text);
    if (is_new) {
      make(kernel, text, row->second);
    } else {
      count_kernel(KernelOutcome::kShared);
    }
    *reason = row->second.why_not;
    return row->second.function;
  }

 private:
  struct Row {
    KernelFunction function = nullptr;
    std::string why_not;
  };

  void make(const codegen::Kernel& kernel, const std::string& text, Row& row) {
    const auto start = std::chrono::steady_clock::now();
    KernelOutcome outcome = KernelOutcome::kCompiled;
    const std::string key = target_ + text;
    const std::string name = "kernel_" + codegen::digest_of(key);
    if (std::optional<std::string> object = disk_.read(key)) {
      row.function = compiler_->load(*object, name.c_str(), &resolve, &row.why_not);
      outcome = KernelOutcome::kRead;
    } else {
      std::string made;
      if (compiler_->emit(kernel, name.c_str(), &made, &row.why_not))
        row.function = compiler_->load(made, name.c_str(), &resolve, &row.why_not);
      if (row.function) disk_.write(key, made);
    }
    if (!row.function) outcome = KernelOutcome::kFailed;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    count_kernel(outcome, seconds, row.why_not);
  }

  const codegen::LlvmCompiler* compiler_ = nullptr;
  std::string why_not_;
  std::string target_;  // what machine code is for, and by which compiler
  codegen::DiskCache disk_;
  std::mutex mutex_;
  std::unordered_map<std::string, Row> functions_;  // by the kernel's text
};

// Never ended: kernels run on any thread until the process ends.
KernelLibrary& kernel_library() {
  static KernelLibrary* instance = new KernelLibrary;
  return *instance;
}

}  // namespace

KernelFunction kernel_function(const codegen::Kernel& kernel, std::string* why_not) {
  return kernel_library().function(kernel, why_not);
}

std::string why_no_kernels() { return kernel_library().why_not(); }

std::string kernel_cache_folder(std::string* why_not) {
  *why_not = kernel_library().disk().why_not();
  return why_not->empty() ? kernel_library().disk().folder() : std::string();
}

}  // namespace framejit::torchlib
