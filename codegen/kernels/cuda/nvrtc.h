// NVRTC, CUDA's compiler as a library, loaded at run time: a process without it loses nothing but kernels for CUDA. It
// needs no device.
#pragma once

#include <string>
#include <vector>

namespace framejit::codegen {

// Where it may be: what the process has loaded, files in these folders, what the system finds.
std::vector<std::string> nvrtc_names(const std::vector<std::string>& folders);

class Nvrtc {
 public:
  // The first of `names` that loads.
  explicit Nvrtc(const std::vector<std::string>& names);

  const std::string& why_not() const { return why_not_; }  // empty: it is there
  // Of NVRTC, with all that its code depends on beside text and architecture.
  const std::string& version() const { return version_; }
  // Machine code for `architecture` ("sm_80"). False with a reason: the compiler's own words.
  bool compile(const std::string& text, const std::string& architecture, std::string* cubin,
               std::string* why_not) const;

 private:
  struct Program;
  using Handle = struct NvrtcProgram*;
  std::string message(int status) const;

  std::string why_not_, version_;
  int (*version_of_)(int* major, int* minor) = nullptr;
  int (*create_)(Handle*, const char* text, const char* name, int, const char* const*, const char* const*) = nullptr;
  int (*compile_)(Handle, int count, const char* const* options) = nullptr;
  int (*log_size_)(Handle, size_t*) = nullptr;
  int (*log_)(Handle, char*) = nullptr;
  int (*code_size_)(Handle, size_t*) = nullptr;
  int (*code_)(Handle, char*) = nullptr;
  int (*destroy_)(Handle*) = nullptr;
  const char* (*error_text_)(int) = nullptr;
};

}  // namespace framejit::codegen
