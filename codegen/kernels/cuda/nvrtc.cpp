#include "codegen/kernels/cuda/nvrtc.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "codegen/kernels/cuda/library.h"

namespace framejit::codegen {

namespace {

constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"};
// Products and sums stay two roundings, as in LibTorch's operators one after the other.
constexpr std::array kOptions = {"--fmad=false", "--std=c++17", "--disable-warnings"};
constexpr size_t kMostLog = 2000;

bool is_compiler(const std::string& file) {
  return file.starts_with("libnvrtc") && file.find(".so") != std::string::npos &&
         file.find("builtins") == std::string::npos && file.find(".alt.") == std::string::npos;
}

}  // namespace

std::vector<std::string> nvrtc_names(const std::vector<std::string>& folders) {
  std::vector<std::string> names(std::begin(kNames), std::end(kNames));
  std::vector<std::string> files;
  for (const std::string& folder : folders) {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder, none))
      if (is_compiler(entry.path().filename().string())) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  names.insert(names.begin(), files.begin(), files.end());
  return names;
}

Nvrtc::Nvrtc(const std::vector<std::string>& names) {
  void* library = load_library(names, &why_not_);
  if (!library) return;
  why_not_.clear();
  const LibraryFunction functions[] = {
      {"nvrtcVersion", reinterpret_cast<void**>(&version_of_)},
      {"nvrtcCreateProgram", reinterpret_cast<void**>(&create_)},
      {"nvrtcCompileProgram", reinterpret_cast<void**>(&compile_)},
      {"nvrtcGetProgramLogSize", reinterpret_cast<void**>(&log_size_)},
      {"nvrtcGetProgramLog", reinterpret_cast<void**>(&log_)},
      {"nvrtcGetCUBINSize", reinterpret_cast<void**>(&code_size_)},
      {"nvrtcGetCUBIN", reinterpret_cast<void**>(&code_)},
      {"nvrtcDestroyProgram", reinterpret_cast<void**>(&destroy_)},
      {"nvrtcGetErrorString", reinterpret_cast<void**>(&error_text_)},
  };
  if (!find_functions(library, functions, &why_not_)) {
    why_not_ = "NVRTC: " + why_not_;
    return;
  }
  int major = 0, minor = 0;
  version_of_(&major, &minor);
  version_ = fmt::format("nvrtc {}.{} {}", major, minor, fmt::join(kOptions, " "));
}

std::string Nvrtc::message(int status) const { return std::string("NVRTC: ") + error_text_(status); }

struct Nvrtc::Program {
  const Nvrtc& nvrtc;
  Handle handle = nullptr;
  ~Program() {
    if (handle) nvrtc.destroy_(&handle);
  }
  std::string log() const {
    size_t size = 0;
    if (nvrtc.log_size_(handle, &size) != 0 || size <= 1) return {};
    std::string text(size, '\0');
    if (nvrtc.log_(handle, text.data()) != 0) return {};
    text.resize(std::min(text.find('\0'), kMostLog));
    return ": " + text;
  }
};

bool Nvrtc::compile(const std::string& text, const std::string& architecture, std::string* cubin,
                    std::string* why_not) const {
  if (!why_not_.empty()) {
    *why_not = why_not_;
    return false;
  }
  Program program{*this};
  const std::string target = "--gpu-architecture=" + architecture;
  std::vector<const char*> options(kOptions.begin(), kOptions.end());
  options.push_back(target.c_str());
  int status = create_(&program.handle, text.c_str(), "framejit.cu", 0, nullptr, nullptr);
  if (status == 0) {
    status = compile_(program.handle, static_cast<int>(options.size()), options.data());
    if (status != 0) {
      *why_not = message(status) + program.log();
      return false;
    }
  }
  size_t size = 0;
  if (status == 0) status = code_size_(program.handle, &size);
  if (status == 0) cubin->resize(size);
  if (status == 0) status = code_(program.handle, cubin->data());
  if (status != 0) *why_not = message(status);
  return status == 0;
}

}  // namespace framejit::codegen
