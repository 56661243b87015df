#include "runtime/torch/device_context.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/PyInterpreter.h>

namespace framejit::torchlib {
namespace {

using Tls = at::impl::PythonTorchFunctionTLS;

PyObject* mode_at(int64_t index) { return Tls::get_stack_at(index)->ptr(getPyInterpreter()); }

// The dictionary of a module that torch has imported, or null. Borrowed.
PyObject* dict_of(const char* module_name) {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), module_name);
  return module && PyModule_Check(module) ? PyModule_GetDict(module) : nullptr;
}

// Asked in each call, so without a look-up of the module.
bool is_cuda_initialised() {
  static bool initialised = false;  // for ever: a forked child cannot use CUDA anyway
  static PyObject *dict = nullptr, *name = nullptr;
  if (initialised || !c10::impl::hasDeviceGuardImpl(c10::kCUDA)) return initialised;
  if (!dict) {
    dict = dict_of("torch.cuda");
    Py_XINCREF(dict);
    name = PyUnicode_InternFromString("_initialized");
  }
  initialised = dict && name && PyDict_GetItemWithError(dict, name) == Py_True;  // of text, which does not fail
  return initialised;
}

}  // namespace

bool has_only_device_contexts() {
  const int64_t count = Tls::stack_len();
  PyObject* dict = count > 0 ? dict_of("torch.utils._device") : nullptr;
  PyObject* type = dict ? PyDict_GetItemString(dict, "DeviceContext") : nullptr;
  for (int64_t i = 0; i < count; ++i)
    if (reinterpret_cast<PyObject*>(Py_TYPE(mode_at(i))) != type) return false;
  return true;
}

std::vector<Ref> device_contexts() {
  std::vector<Ref> devices;
  for (int64_t i = 0; i < Tls::stack_len(); ++i) {
    devices.push_back(Ref::steal(PyObject_GetAttrString(mode_at(i), "device")));
    if (!devices.back()) PyErr_Clear();
  }
  return devices;
}

uint64_t device_contexts_word() {
  uint64_t word = 0;
  if (Tls::stack_len() == 0 || !has_only_device_contexts()) return word;
  for (const Ref& device : device_contexts()) {
    const bool known = device && THPDevice_Check(device.get());
    const c10::Device value = known ? reinterpret_cast<THPDevice*>(device.get())->device : c10::Device(c10::kCPU);
    word = word * 0x10001 + 1 + (static_cast<uint64_t>(value.type()) << 8 | static_cast<uint8_t>(value.index()));
  }
  return word;
}

void set_device_contexts_aside() {
  while (Tls::stack_len() > 0) Tls::pop_stack();
}

std::optional<int> current_cuda_device() {
  if (!is_cuda_initialised()) return std::nullopt;
  return c10::impl::getDeviceGuardImpl(c10::kCUDA)->getDevice().index();
}

void set_current_cuda_device(int index) {
  const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
  c10::impl::getDeviceGuardImpl(c10::kCUDA)->uncheckedSetDevice(device);
}

}  // namespace framejit::torchlib
