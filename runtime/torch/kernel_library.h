// The kernels of this process: compiled once for each text, found again on disk.
#pragma once

#include <cstdint>
#include <string>

#include "codegen/kernels/kernel.h"

namespace framejit::torchlib {

using codegen::KernelFunction;

struct KernelStats {
  uint64_t compiled = 0;
  uint64_t read = 0;    // from disk
  uint64_t shared = 0;  // asked for again
  uint64_t failed = 0;
  double seconds = 0;   // of compiling and reading
  std::string failure;  // the last
};

// The code of a kernel. Null with a reason. Any thread may ask; the GIL is not needed.
KernelFunction kernel_function(const codegen::Kernel& kernel, std::string* why_not);

// Why there are no kernels in this process, or empty. Loads the compiler.
std::string why_no_kernels();

KernelStats kernel_stats();
// The folder of the disk cache, or empty, with the reason.
std::string kernel_cache_folder(std::string* why_not);

}  // namespace framejit::torchlib
