#include "runtime/torch/py_tensor.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "graph/capture.h"
#include "runtime/torch/convert.h"
#include "runtime/torch/torch_host.h"

namespace framejit::torchlib {

bool is_tensor_object(PyObject* obj) {
  if (THPVariable_CheckExact(obj)) return true;
  return THPVariableClass && PyType_IsSubtype(Py_TYPE(obj), reinterpret_cast<PyTypeObject*>(THPVariableClass));
}

const at::Tensor& unpack_tensor(PyObject* obj) { return THPVariable_Unpack(obj); }

PyObject* wrap_tensor(at::Tensor tensor) { return THPVariable_Wrap(std::move(tensor)); }

PyTypeObject* tensor_type() { return reinterpret_cast<PyTypeObject*>(THPVariableClass); }
PyTypeObject* parameter_type() { return reinterpret_cast<PyTypeObject*>(ParameterClass); }

namespace {

// The words: key set, the small facts, storage offset, then a size and a stride for each dimension.
uint64_t small_facts(uint8_t dtype, size_t rank, bool requires_grad, bool is_leaf) {
  return dtype | rank << 8 | static_cast<uint64_t>(requires_grad) << 40 | static_cast<uint64_t>(is_leaf) << 41;
}

// The index alone: the key set tells the kind of device.
uint64_t device_word(bool is_cpu, c10::DeviceIndex index) {
  return is_cpu ? 0 : static_cast<uint64_t>(index + 2) << 48;
}

}  // namespace

void pack_tensor_facts(const graph::TensorFacts& facts, std::vector<uint64_t>& words) {
  const graph::TensorMeta& meta = facts.meta;
  words.push_back(facts.key_set);
  words.push_back(small_facts(static_cast<uint8_t>(meta.dtype), meta.sizes.size(), meta.requires_grad,
                              meta.requires_grad && facts.is_leaf) |
                  device_word(meta.device.is_cpu(), static_cast<c10::DeviceIndex>(meta.device.index)));
  words.push_back(static_cast<uint64_t>(meta.storage_offset));
  for (size_t i = 0; i < meta.sizes.size(); ++i) {
    words.push_back(static_cast<uint64_t>(meta.sizes[i]));
    words.push_back(static_cast<uint64_t>(meta.strides[i]));
  }
}

namespace {

// Runs for each parameter on each call: the fields of autograd are read where they lie, past three virtual calls.
inline bool matches(PyObject* tensor, const uint64_t* words) {
  const at::Tensor& value = THPVariable_Unpack(tensor);
  const c10::TensorImpl* impl = value.unsafeGetTensorImpl();
  if (impl->key_set().raw_repr() != words[0]) return false;
  const torch::autograd::AutogradMeta* autograd = torch::autograd::impl::get_autograd_meta(value);
  const bool has_history = autograd && autograd->grad_fn_;
  // A view made without gradients has its base's flag.
  const bool requires_grad =
      has_history || (autograd && (autograd->is_view_ ? autograd->requires_grad() : autograd->requires_grad_));
  const c10::IntArrayRef sizes = impl->sizes(), strides = impl->strides();
  const bool is_cpu = impl->is_cpu();
  const uint64_t small = small_facts(static_cast<uint8_t>(c10::typeMetaToScalarType(impl->dtype())), sizes.size(),
                                     requires_grad, requires_grad && !has_history) |
                         device_word(is_cpu, is_cpu ? -1 : impl->device().index());
  if (small != words[1] || static_cast<uint64_t>(impl->storage_offset()) != words[2]) return false;
  const uint64_t* dims = words + 3;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (static_cast<uint64_t>(sizes[i]) != dims[2 * i] || static_cast<uint64_t>(strides[i]) != dims[2 * i + 1])
      return false;
  return true;
}

bool has_node_hooks(const torch::autograd::AutogradMeta& autograd) {
  const auto accumulator = autograd.grad_accumulator_.lock();
  return accumulator && !(accumulator->pre_hooks().empty() && accumulator->post_hooks().empty());
}

}  // namespace

bool has_node_hooks(PyObject* tensor) {
  const auto* autograd = torch::autograd::impl::get_autograd_meta(THPVariable_Unpack(tensor));
  return autograd && has_node_hooks(*autograd);
}

bool has_no_grad_hooks(PyObject* tensor) {
  const auto* autograd = torch::autograd::impl::get_autograd_meta(THPVariable_Unpack(tensor));
  if (!autograd) return true;
  return autograd->hooks_.empty() && !autograd->post_acc_grad_hooks_ && !autograd->retains_grad_ &&
         !has_node_hooks(*autograd);
}

bool tensor_matches(PyObject* tensor, const uint64_t* words) { return matches(tensor, words); }

size_t first_mismatch(const runtime::TensorRow* rows, size_t count) {
  constexpr size_t kAhead = 4;
  for (size_t i = 0; i < count; ++i) {
    // The address is only hinted at: a tensor further on may be gone.
    if (i + kAhead < count) __builtin_prefetch(rows[i + kAhead].tensor);
    const runtime::TensorRow& row = rows[i];
    if (reinterpret_cast<PyObject*>(Py_TYPE(row.tensor)) != row.type || !matches(row.tensor, row.words)) return i;
  }
  return count;
}

}  // namespace framejit::torchlib
