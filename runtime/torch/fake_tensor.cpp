#include "runtime/torch/fake_tensor.h"

#include <typeinfo>

#include "runtime/torch/convert.h"

namespace framejit::torchlib {

template <class Version>
c10::intrusive_ptr<c10::TensorImpl> FakeImpl::copy_and_detach(Version&& version_counter, bool allow_change) const {
  auto copy = c10::make_intrusive<FakeImpl>(c10::Storage(storage_), key_set_, data_type_, owner_, value_);
  // A counter of its own: `x.data`, or what autograd unpacks. detach() hands in the counter of its base.
  copy->is_copy_ = std::is_rvalue_reference_v<Version&&>;
  copy_tensor_metadata(this, copy.get(), std::forward<Version>(version_counter), allow_change);
  if (keeper_) {
    copy->set_keeper(keeper_);
    keeper_->adopt(at::Tensor(copy));
  }
  return copy;
}

c10::intrusive_ptr<c10::TensorImpl> FakeImpl::shallow_copy_and_detach(const c10::VariableVersion& version_counter,
                                                                      bool allow_tensor_metadata_change) const {
  return copy_and_detach(version_counter, allow_tensor_metadata_change);
}

c10::intrusive_ptr<c10::TensorImpl> FakeImpl::shallow_copy_and_detach(c10::VariableVersion&& version_counter,
                                                                      bool allow_tensor_metadata_change) const {
  return copy_and_detach(std::move(version_counter), allow_tensor_metadata_change);
}

FakeImpl* fake_impl(const at::TensorBase& tensor) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (!impl->key_set().has(c10::DispatchKey::Fake) || typeid(*impl) != typeid(FakeImpl)) return nullptr;
  return static_cast<FakeImpl*>(impl);
}

bool is_of_level(const at::Tensor& tensor) {
  return tensor.key_set().has_any(
      c10::DispatchKeySet({c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper}));
}

c10::Storage fake_storage(c10::Device device) {
  auto impl = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t{}, c10::SymInt(0),
                                                    c10::DataPtr(nullptr, device), nullptr, /*resizable=*/false);
  impl->set_throw_on_mutable_data_ptr();
  return c10::Storage(std::move(impl));
}

namespace {

c10::DispatchKeySet backend_keys(c10::Device device) {
  return c10::DispatchKeySet(c10::computeDispatchKey(std::nullopt, c10::Layout::Strided, device));
}

}  // namespace

at::Tensor make_fake(const graph::TensorMeta& meta, Recorder* owner, graph::ValueId value, c10::Storage storage,
                     c10::DispatchKeySet extra) {
  c10::Device device = from_device(meta.device);
  auto impl =
      c10::make_intrusive<FakeImpl>(std::move(storage), backend_keys(device).add(c10::DispatchKey::Fake) | extra,
                                    c10::scalarTypeToTypeMeta(from_dtype(meta.dtype)), owner, value);
  impl->set_sizes_and_strides(to_array(meta.sizes), to_array(meta.strides), meta.storage_offset);
  if (meta.wrapped_number) impl->set_wrapped_number(true);
  return at::Tensor(std::move(impl));
}

}  // namespace framejit::torchlib
