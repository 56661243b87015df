#include "codegen/kernels/cuda/driver.h"

#include <fmt/format.h>

#include "codegen/kernels/cuda/library.h"

namespace framejit::codegen {

namespace {

constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR

}  // namespace

// The device's context is the thread's while this lives.
class CudaDriver::InContext {
 public:
  InContext(CudaDriver& driver, int device, std::string* why_not) : driver_(driver) {
    Context wanted = nullptr, now = nullptr;
    if (!driver.context_of(device, &wanted, why_not)) return;
    if (!driver.has_worked(driver.current_(&now), "cuCtxGetCurrent", why_not)) return;
    if (now != wanted) pushed_ = driver.has_worked(driver.push_(wanted), "cuCtxPushCurrent", why_not);
    entered_ = now == wanted || pushed_;
  }
  ~InContext() {
    Context popped;
    if (pushed_) driver_.pop_(&popped);
  }
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;
  explicit operator bool() const { return entered_; }

 private:
  CudaDriver& driver_;
  bool pushed_ = false, entered_ = false;
};

CudaDriver::CudaDriver(const std::vector<std::string>& names) {
  void* library = load_library(names, &why_not_);
  if (!library) return;
  why_not_.clear();
  const LibraryFunction functions[] = {
      {"cuInit", reinterpret_cast<void**>(&init_)},
      {"cuDeviceGet", reinterpret_cast<void**>(&device_)},
      {"cuDeviceGetAttribute", reinterpret_cast<void**>(&attribute_)},
      {"cuDevicePrimaryCtxRetain", reinterpret_cast<void**>(&retain_)},
      {"cuCtxGetCurrent", reinterpret_cast<void**>(&current_)},
      {"cuCtxPushCurrent_v2", reinterpret_cast<void**>(&push_)},
      {"cuCtxPopCurrent_v2", reinterpret_cast<void**>(&pop_)},
      {"cuModuleLoadData", reinterpret_cast<void**>(&load_)},
      {"cuModuleGetFunction", reinterpret_cast<void**>(&function_)},
      {"cuLaunchKernel", reinterpret_cast<void**>(&launch_)},
      {"cuGetErrorString", reinterpret_cast<void**>(&error_text_)},
  };
  if (!find_functions(library, functions, &why_not_)) {
    why_not_ = "CUDA's driver: " + why_not_;
    return;
  }
  has_worked(init_(0), "cuInit", &why_not_);
}

bool CudaDriver::has_worked(int status, const char* what, std::string* why_not) const {
  if (status == 0) return true;
  const char* text = nullptr;
  if (error_text_(status, &text) != 0 || !text) text = "unknown error";
  *why_not = fmt::format("{}: {} ({})", what, text, status);
  return false;
}

bool CudaDriver::context_of(int device, Context* context, std::string* why_not) {
  if (!why_not_.empty()) {
    *why_not = why_not_;
    return false;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  Context& known = contexts_[device];
  if (!known) {
    int handle = 0;
    if (!has_worked(device_(&handle, device), "cuDeviceGet", why_not) ||
        !has_worked(retain_(&known, handle), "cuDevicePrimaryCtxRetain", why_not))
      return false;
  }
  *context = known;
  return true;
}

std::string CudaDriver::architecture(int device, std::string* why_not) {
  if (!why_not_.empty()) {
    *why_not = why_not_;
    return {};
  }
  int handle = 0, major = 0, minor = 0;
  if (!has_worked(device_(&handle, device), "cuDeviceGet", why_not) ||
      !has_worked(attribute_(&major, kMajor, handle), "cuDeviceGetAttribute", why_not) ||
      !has_worked(attribute_(&minor, kMinor, handle), "cuDeviceGetAttribute", why_not))
    return {};
  return fmt::format("sm_{}{}", major, minor);
}

CudaFunction CudaDriver::load(int device, const std::string& cubin, const std::string& name, std::string* why_not) {
  InContext context(*this, device, why_not);
  Module module = nullptr;
  CudaFunction function = nullptr;
  if (!context || !has_worked(load_(&module, cubin.data()), "cuModuleLoadData", why_not) ||
      !has_worked(function_(&function, module, name.c_str()), "cuModuleGetFunction", why_not))
    return nullptr;
  return function;
}

bool CudaDriver::launch(int device, CudaFunction function, const CudaLaunch& launch, int64_t* arguments, void* stream,
                        std::string* why_not) {
  InContext context(*this, device, why_not);
  void* parameters[] = {arguments};
  return context && has_worked(launch_(function, launch.blocks, 1, 1, launch.width, launch.lines, 1, 0, stream,
                                       parameters, nullptr),
                               "cuLaunchKernel", why_not);
}

}  // namespace framejit::codegen
