#include "runtime/torch/current_stream.h"

#include <Python.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include "base/py_ref.h"

namespace framejit::torchlib {

namespace {

// Before streams told their handles, only torch's own Python module did.
void* handle_by_python(c10::DeviceIndex device) {
  const PyGILState_STATE state = PyGILState_Ensure();
  void* handle = nullptr;
  bool failed = true;
  {
    Ref module = Ref::steal(PyImport_ImportModule("torch._C"));
    Ref result =
        module ? Ref::steal(PyObject_CallMethod(module.get(), "_cuda_getCurrentRawStream", "i", device)) : Ref();
    if (result) handle = PyLong_AsVoidPtr(result.get());
    failed = PyErr_Occurred() != nullptr;
    if (failed) PyErr_Clear();
  }
  PyGILState_Release(state);
  TORCH_CHECK(!failed, "framejit: torch does not tell the current stream of CUDA device ", static_cast<int>(device));
  return handle;
}

template <class Stream>
void* handle_of(const Stream& stream) {
  if constexpr (requires { stream.native_handle(); }) return stream.native_handle();
  return handle_by_python(stream.device_index());
}

}  // namespace

void* current_stream(int device) {
  const c10::Device of(c10::kCUDA, static_cast<c10::DeviceIndex>(device));
  return handle_of(c10::impl::getDeviceGuardImpl(c10::kCUDA)->getStream(of));
}

}  // namespace framejit::torchlib
