#include "python/bindings/placed_tensors.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/utils/device_lazy_init.h>

#include <algorithm>

#include "runtime/torch/fake_tensor.h"
#include "runtime/torch/py_tensor.h"
#include "runtime/torch/trace_stop.h"

namespace framejit {
namespace {

constexpr int kFirstStream = 81;  // the handle of device 0's

// Earlier LibTorch does not ask for the handles of streams.
template <class Interface>
class WithHandles : public Interface {};
template <class Interface>
requires requires { &Interface::getStreamNativeHandle; }
class WithHandles<Interface> : public Interface {
 public:
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return reinterpret_cast<void*>(static_cast<uintptr_t>(kFirstStream + stream.device_index()));
  }
};

class IdleCuda final : public WithHandles<c10::impl::DeviceGuardImplInterface> {
 public:
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device getDevice() const override { return c10::Device(c10::kCUDA, current); }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    current = device.index();
    return before;
  }
  void setDevice(c10::Device device) const override { current = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current = device.index(); }
  c10::Stream getStream(c10::Device device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return count; }

  static thread_local c10::DeviceIndex current;
  c10::DeviceIndex count = 0;
};

thread_local c10::DeviceIndex IdleCuda::current = 0;

at::Tensor placed(const at::Tensor& like, c10::Device device, c10::Storage storage) {
  const c10::DispatchKeySet keys(c10::computeDispatchKey(std::nullopt, c10::Layout::Strided, device));
  auto impl = c10::make_intrusive<c10::TensorImpl>(std::move(storage), keys, like.dtype());
  impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  return at::Tensor(std::move(impl));
}

c10::Storage storage_over(const at::Tensor& tensor, c10::Device device) {
  auto* keeper = new at::Tensor(tensor);
  auto free = [](void* kept) { delete static_cast<at::Tensor*>(kept); };
  c10::DataPtr memory(tensor.storage().mutable_data(), keeper, free, device);
  return c10::Storage(c10::Storage::use_byte_size_t(), tensor.storage().nbytes(), std::move(memory), nullptr, false);
}

template <class MakeStorage>
PyObject* placed_by(PyObject* args, MakeStorage&& make_storage) {
  PyObject* object;
  const char* name;
  if (!PyArg_ParseTuple(args, "Os", &object, &name)) return nullptr;
  if (!torchlib::is_tensor_object(object)) return PyErr_Format(PyExc_TypeError, "expected a tensor");
  PyObject* result = nullptr;
  torchlib::with_translated_errors([&] {
    const at::Tensor& like = torchlib::unpack_tensor(object);
    const c10::Device device(name);
    result = torchlib::wrap_tensor(placed(like, device, make_storage(like, device)));
    return result != nullptr;
  });
  return result;
}

}  // namespace

PyObject* placed_tensor(PyObject*, PyObject* args) {
  return placed_by(args, [](const at::Tensor&, c10::Device device) { return torchlib::fake_storage(device); });
}

PyObject* tensor_placed_over(PyObject*, PyObject* args) { return placed_by(args, storage_over); }

PyObject* pretend_cuda(PyObject*, PyObject* count) {
  static IdleCuda idle;
  static const c10::impl::DeviceGuardImplInterface* replaced = nullptr;
  const long devices = PyLong_AsLong(count);
  if (devices == -1 && PyErr_Occurred()) return nullptr;
  auto& slot = c10::impl::device_guard_impl_registry[static_cast<size_t>(c10::kCUDA)];
  if (devices > 0 && slot.load() != &idle) replaced = slot.exchange(&idle);
  if (devices <= 0 && slot.load() == &idle) slot.store(replaced);
  // LibTorch's autograd engine starts as many threads, once, as there are devices when it is first used.
  const auto real = replaced ? replaced->deviceCount() : c10::DeviceIndex(0);
  idle.count = std::max(static_cast<c10::DeviceIndex>(devices), real);
  IdleCuda::current = 0;
  torch::utils::set_requires_device_init(c10::kCUDA, devices <= 0);
  Py_RETURN_NONE;
}

}  // namespace framejit
