#include "runtime/torch/cuda_library.h"

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "codegen/kernels/cuda/nvrtc.h"
#include "codegen/kernels/cuda/source.h"
#include "codegen/kernels/disk_cache.h"
#include "runtime/torch/current_stream.h"
#include "runtime/torch/kernel_library.h"

namespace framejit::torchlib {

namespace {

// Where NVRTC comes with LibTorch: among its own files, or in NVIDIA's packages beside it.
std::vector<std::string> nvrtc_folders() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&c10::GetAllocator), &info) || !info.dli_fname) return {};
  const std::string path = info.dli_fname;
  const std::string lib = path.substr(0, path.rfind('/'));
  const std::string packages = lib + "/../../nvidia/";
  return {lib, packages + "cuda_nvrtc/lib", packages + "cu13/lib", packages + "cu12/lib"};
}

// Of a device in particular.
int ordinal_of(graph::Device device) { return static_cast<unsigned char>(device.index); }

class CudaLibrary {
 public:
  CudaLibrary(const std::vector<std::string>& nvrtc, const std::vector<std::string>& driver)
      : nvrtc_(nvrtc), driver_(driver), disk_(codegen::default_cache_folder(), kMostKernelBytesOnDisk) {}

  const codegen::Nvrtc& nvrtc() const { return nvrtc_; }
  codegen::CudaDriver& driver() { return driver_; }

  codegen::CudaFunction function(const codegen::FusedGroup& group, std::string* why_not) {
    const codegen::CudaSource source = codegen::cuda_source(group.kernel, codegen::cuda_shape(group.loop));
    const int device = ordinal_of(group.device);
    std::lock_guard<std::mutex> lock(mutex_);
    auto [row, is_new] = functions_.try_emplace(std::to_string(device) + " " + source.name);
    if (is_new) {
      make(source, device, row->second);
    } else {
      count_kernel(KernelOutcome::kShared);
    }
    *why_not = row->second.why_not;
    return row->second.function;
  }

 private:
  struct Row {
    codegen::CudaFunction function = nullptr;
    std::string why_not;
  };

  void make(const codegen::CudaSource& source, int device, Row& row) {
    const auto start = std::chrono::steady_clock::now();
    KernelOutcome outcome = KernelOutcome::kFailed;
    const std::string architecture = driver_.architecture(device, &row.why_not);
    if (!architecture.empty()) {
      std::string cubin;
      outcome = code(source, architecture, &cubin, &row.why_not);
      if (outcome != KernelOutcome::kFailed) row.function = driver_.load(device, cubin, source.name, &row.why_not);
      if (!row.function) outcome = KernelOutcome::kFailed;
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    count_kernel(outcome, seconds, row.why_not);
  }

  KernelOutcome code(const codegen::CudaSource& source, const std::string& architecture, std::string* cubin,
                     std::string* why_not) const {
    const std::string key = nvrtc_.version() + "\n" + architecture + "\n" + source.text;
    if (std::optional<std::string> kept = nvrtc_.why_not().empty() ? disk_.read(key) : std::nullopt) {
      *cubin = std::move(*kept);
      return KernelOutcome::kRead;
    }
    if (!nvrtc_.compile(source.text, architecture, cubin, why_not)) return KernelOutcome::kFailed;
    disk_.write(key, *cubin);
    return KernelOutcome::kCompiled;
  }

  const codegen::Nvrtc nvrtc_;
  codegen::CudaDriver driver_;
  const codegen::DiskCache disk_;
  std::mutex mutex_;
  std::unordered_map<std::string, Row> functions_;  // by device and the name of the text's function
};

CudaLibrary* replaced = nullptr;

// Never ended: kernels run on any thread until the process ends.
CudaLibrary& cuda_library() {
  if (replaced) return *replaced;
  static CudaLibrary* instance = new CudaLibrary(codegen::nvrtc_names(nvrtc_folders()), {"libcuda.so.1"});
  return *instance;
}

}  // namespace

std::unique_ptr<const CudaKernel> cuda_kernel(const codegen::FusedGroup& group, std::string* why_not) {
  auto made = std::make_unique<CudaKernel>();
  made->device = ordinal_of(group.device);
  made->function = nullptr;
  if (group.device.index < 0) {
    *why_not = "tensors on no CUDA device in particular";
  } else if (codegen::make_cuda_launch(group.kernel, group.loop, &made->launch, why_not)) {
    made->function = cuda_library().function(group, why_not);
    return made->function ? std::move(made) : nullptr;
  }
  count_kernel(KernelOutcome::kFailed, 0, *why_not);
  return nullptr;
}

void run_cuda_kernel(const CudaKernel& kernel, std::span<char* const> buffers) {
  const std::vector<int64_t>& fixed = kernel.launch.arguments;
  std::array<int64_t, codegen::kMostCudaArguments> arguments;
  std::copy(fixed.begin(), fixed.end(), arguments.begin());
  for (size_t b = 0; b < buffers.size(); ++b) arguments[1 + b] = reinterpret_cast<int64_t>(buffers[b]);
  std::string failure;
  const bool started = cuda_library().driver().launch(kernel.device, kernel.function, kernel.launch, arguments.data(),
                                                      current_stream(kernel.device), &failure);
  TORCH_CHECK(started, "CUDA error in a kernel of framejit: ", failure);
}

std::string compile_cuda(const std::string& text, const std::string& architecture, std::string* why_not) {
  std::string cubin;
  return cuda_library().nvrtc().compile(text, architecture, &cubin, why_not) ? cubin : std::string();
}

void use_cuda_libraries(const std::string& nvrtc, const std::string& driver) {
  replaced = nvrtc.empty() ? nullptr : new CudaLibrary({nvrtc}, {driver});
}

}  // namespace framejit::torchlib
