#include "python/bindings/cuda_testing.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>

#include "codegen/kernels/cuda/source.h"
#include "python/bindings/graph_testing.h"
#include "runtime/torch/cuda_library.h"
#include "runtime/torch/fused_step.h"

namespace framejit {

namespace {

codegen::CudaSource source_of(const codegen::FusedGroup& group) {
  return codegen::cuda_source(group.kernel, codegen::cuda_shape(group.loop));
}

std::mutex folder_mutex;
std::string folder_of_texts;

// Written beside its place and renamed: several processes may share the folder.
void write_text(const codegen::FusedGroup& group) {
  const codegen::CudaSource source = source_of(group);
  std::lock_guard<std::mutex> lock(folder_mutex);
  const std::string path = folder_of_texts + "/" + source.name + ".cu";
  std::error_code none;
  if (std::filesystem::exists(path, none)) return;
  const std::string beside = path + "." + std::to_string(getpid());
  std::ofstream(beside) << source.text;
  std::filesystem::rename(beside, path, none);
}

}  // namespace

PyObject* cuda_kernels_of(PyObject*, PyObject* text) {
  return texts_of_groups(text, [](const codegen::FusedGroup& group) { return source_of(group).text; });
}

PyObject* compile_cuda_text(PyObject*, PyObject* args) {
  const char *text, *architecture;
  if (!PyArg_ParseTuple(args, "ss", &text, &architecture)) return nullptr;
  std::string why_not, cubin;
  Py_BEGIN_ALLOW_THREADS;
  cubin = torchlib::compile_cuda(text, architecture, &why_not);
  Py_END_ALLOW_THREADS;
  if (cubin.empty()) return PyErr_Format(PyExc_RuntimeError, "%s", why_not.c_str());
  return PyBytes_FromStringAndSize(cubin.data(), static_cast<Py_ssize_t>(cubin.size()));
}

PyObject* use_cuda_libraries(PyObject*, PyObject* args) {
  const char *nvrtc, *driver;
  if (!PyArg_ParseTuple(args, "ss", &nvrtc, &driver)) return nullptr;
  torchlib::use_cuda_libraries(nvrtc, driver);
  Py_RETURN_NONE;
}

PyObject* collect_cuda(PyObject*, PyObject* folder) {
  const char* utf8 = folder == Py_None ? "" : PyUnicode_AsUTF8(folder);
  if (!utf8) return nullptr;
  std::lock_guard<std::mutex> lock(folder_mutex);
  folder_of_texts = utf8;
  torchlib::observe_groups(folder_of_texts.empty() ? nullptr : &write_text);
  Py_RETURN_NONE;
}

}  // namespace framejit
