// The kernels of this process for its processor: compiled once for each text, found again on disk.
#pragma once

#include <cstdint>
#include <string>

#include "codegen/kernels/kernel.h"
#include "runtime/torch/kernel_stats.h"

namespace framejit::torchlib {

using codegen::KernelFunction;

// The code of a kernel. Null with a reason. Any thread may ask; the GIL is not needed.
KernelFunction kernel_function(const codegen::Kernel& kernel, std::string* why_not);

// Why there are no kernels in this process, or empty. Loads the compiler.
std::string why_no_kernels();

constexpr uint64_t kMostKernelBytesOnDisk = 256 << 20;
// The folder of the disk cache, or empty, with the reason.
std::string kernel_cache_folder(std::string* why_not);

}  // namespace framejit::torchlib
