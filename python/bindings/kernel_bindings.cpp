// Kernels of the back end `native`.
#include <Python.h>

#include "base/py_ref.h"
#include "python/bindings/bindings.h"
#include "runtime/torch/frozen_stats.h"
#include "runtime/torch/kernel_library.h"

namespace framejit {

namespace {

PyObject* why_no_kernels(PyObject*, PyObject*) {
  const std::string reason = torchlib::why_no_kernels();
  if (reason.empty()) Py_RETURN_NONE;
  return PyUnicode_FromString(reason.c_str());
}

PyObject* kernel_stats(PyObject*, PyObject*) {
  const torchlib::KernelStats stats = torchlib::kernel_stats();
  std::string why_no_folder;
  const std::string folder = torchlib::kernel_cache_folder(&why_no_folder);
  return Py_BuildValue(
      "{sKsKsKsKsKsKsKsKsKsKsdssssss}", "compiled", static_cast<unsigned long long>(stats.compiled), "read",
      static_cast<unsigned long long>(stats.read), "shared", static_cast<unsigned long long>(stats.shared), "failed",
      static_cast<unsigned long long>(stats.failed), "relaid", static_cast<unsigned long long>(stats.relaid),
      "recomputing", static_cast<unsigned long long>(stats.recomputing), "masks",
      static_cast<unsigned long long>(stats.masks), "drawn", static_cast<unsigned long long>(stats.drawn), "multiplied",
      static_cast<unsigned long long>(stats.multiplied), "convolved", static_cast<unsigned long long>(stats.convolved),
      "seconds", stats.seconds, "failure", stats.failure.c_str(), "folder", folder.c_str(), "why_no_folder",
      why_no_folder.c_str());
}

PyObject* frozen_stats(PyObject*, PyObject*) {
  const torchlib::FrozenStats stats = torchlib::frozen_stats();
  return Py_BuildValue("{sKsK}", "computed", static_cast<unsigned long long>(stats.computed), "packed",
                       static_cast<unsigned long long>(stats.packed));
}

PyMethodDef kFunctions[] = {
    {"why_no_kernels", why_no_kernels, METH_NOARGS,
     "why_no_kernels()\n--\n\nWhy the back end native has no kernels in this process, or None."},
    {"kernel_stats", kernel_stats, METH_NOARGS,
     "kernel_stats()\n--\n\nHow many kernels were compiled, read from disk, used again, and failed; how many graphs "
     "compute channels last, how many have a backward inside that computes again what it reads; how many masks of "
     "dropout graphs draw as booleans; how many tensors of random numbers, matrix products and depthwise convolutions "
     "no kernel of LibTorch computed; the disk cache."},
    {"frozen_stats", frozen_stats, METH_NOARGS,
     "frozen_stats()\n--\n\nOf freeze=True: how often frozen values were computed, how many weights were packed."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

int add_kernel_bindings(PyObject* module) { return PyModule_AddFunctions(module, kFunctions); }

}  // namespace framejit
