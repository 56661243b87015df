// CUDA's driver, loaded at run time: modules of machine code and launches. It works in the devices' primary contexts,
// which are those of the CUDA runtime that LibTorch is linked with.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/kernels/cuda/launch.h"

namespace framejit::codegen {

using CudaFunction = struct CudaFunctionHandle*;

class CudaDriver {
 public:
  explicit CudaDriver(const std::vector<std::string>& names = {"libcuda.so.1"});

  const std::string& why_not() const { return why_not_; }  // empty: it is there
  // "sm_80", of the device that LibTorch numbers so. Empty with a reason.
  std::string architecture(int device, std::string* why_not);
  // The function, for the life of the process. Null with a reason.
  CudaFunction load(int device, const std::string& cubin, const std::string& name, std::string* why_not);
  // Starts it on the stream, a CUstream, with these arguments in the place of the launch's. False with a reason.
  bool launch(int device, CudaFunction function, const CudaLaunch& launch, int64_t* arguments, void* stream,
              std::string* why_not);

 private:
  class InContext;
  using Context = struct CudaContextHandle*;
  using Module = struct CudaModuleHandle*;
  bool has_worked(int status, const char* what, std::string* why_not) const;
  bool context_of(int device, Context* context, std::string* why_not);

  std::string why_not_;
  std::mutex mutex_;
  std::unordered_map<int, Context> contexts_;  // by device; LibTorch keeps them as long as the process lives
  int (*init_)(unsigned) = nullptr;
  int (*device_)(int* device, int ordinal) = nullptr;
  int (*attribute_)(int* value, int attribute, int device) = nullptr;
  int (*retain_)(Context*, int device) = nullptr;
  int (*current_)(Context*) = nullptr;
  int (*push_)(Context) = nullptr;
  int (*pop_)(Context*) = nullptr;
  int (*load_)(Module*, const void* image) = nullptr;
  int (*function_)(CudaFunction*, Module, const char* name) = nullptr;
  int (*launch_)(CudaFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared,
                 void* stream, void** arguments, void** extra) = nullptr;
  int (*error_text_)(int status, const char** text) = nullptr;
};

}  // namespace framejit::codegen
