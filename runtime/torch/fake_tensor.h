// A fake: a tensor with true device, dtype, sizes and strides, and no data. One extra dispatch key, Fake, brings each
// operator on it to the recorder, below autograd.
//
// Fakes that share storage in the program share a storage object here, so that LibTorch's own questions about aliasing
// are answered as for the real ones. The storage holds no memory, and throws when it is asked for some.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <memory>

#include "graph/ids.h"
#include "graph/tensor_meta.h"

namespace framejit::torchlib {

class Recorder;

// Whose fakes may outlive their recording: the values of a graph that a program builds.
class FakeKeeper {
 public:
  virtual ~FakeKeeper() = default;
  // Each fake, when it is made.
  virtual void adopt(const at::Tensor& fake) const = 0;
};

class FakeImpl final : public c10::TensorImpl {
 public:
  FakeImpl(c10::Storage&& storage, c10::DispatchKeySet keys, caffe2::TypeMeta type, Recorder* owner,
           graph::ValueId value)
      : TensorImpl(std::move(storage), keys, type), owner_(owner), value_(value) {}

  // The recording it belongs to: compared only, for it may be over.
  Recorder* owner() const { return owner_; }
  graph::ValueId value() const { return value_; }
  // After an operator that changes sizes or strides in place.
  void set_value(graph::ValueId value) { value_ = value; }
  // Another tensor object over the same value: `x.data`, or what autograd unpacks.
  bool is_copy() const { return is_copy_; }
  void clear_copy_mark() { is_copy_ = false; }
  // Null for what is captured. Lives as long as the fake, and so does its recorder.
  const std::shared_ptr<const FakeKeeper>& keeper() const { return keeper_; }
  void set_keeper(std::shared_ptr<const FakeKeeper> keeper) { keeper_ = std::move(keeper); }

  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version_counter,
                                                              bool allow_tensor_metadata_change) const override;
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version_counter,
                                                              bool allow_tensor_metadata_change) const override;

 private:
  template <class Version>
  c10::intrusive_ptr<c10::TensorImpl> copy_and_detach(Version&& version_counter, bool allow_change) const;

  Recorder* owner_;
  graph::ValueId value_;
  bool is_copy_ = false;
  std::shared_ptr<const FakeKeeper> keeper_;
};

// Null for a real or undefined tensor, and for fakes that are not ours.
FakeImpl* fake_impl(const at::TensorBase& tensor);

// Whether the tensor belongs to a level of torch.func, or came from one that is over.
bool is_of_level(const at::Tensor& tensor);

// Storage for a fresh fake.
c10::Storage fake_storage(c10::Device device);
// `extra` are dispatch keys beyond those that the device gives (conjugate and negative bits).
at::Tensor make_fake(const graph::TensorMeta& meta, Recorder* owner, graph::ValueId value, c10::Storage storage,
                     c10::DispatchKeySet extra = {});

}  // namespace framejit::torchlib
