// The kernels of this process for CUDA devices: compiled by NVRTC once for each text, found again on disk, started
// through the driver. Both are loaded when the first kernel is asked for.
#pragma once

#include <span>
#include <string>

#include "codegen/kernels/cuda/driver.h"
#include "codegen/kernels/cuda/launch.h"
#include "codegen/kernels/lower.h"

namespace framejit::torchlib {

struct CudaKernel {
  int device;
  codegen::CudaFunction function;
  codegen::CudaLaunch launch;
};

// Of a group on a CUDA device. Null with a reason. Any thread may ask; the GIL is not needed.
std::unique_ptr<const CudaKernel> cuda_kernel(const codegen::FusedGroup& group, std::string* why_not);

// Starts it on the stream that is the thread's current one of its device. Throws what eager would: an error of CUDA.
void run_cuda_kernel(const CudaKernel& kernel, std::span<char* const> buffers);

// For tests. Machine code of a text, or empty with a reason; and other libraries in the place of CUDA's, until they are
// named "".
std::string compile_cuda(const std::string& text, const std::string& architecture, std::string* why_not);
void use_cuda_libraries(const std::string& nvrtc, const std::string& driver);

}  // namespace framejit::torchlib
