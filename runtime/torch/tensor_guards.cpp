// What guards compare of tensors: see runtime::TensorGuards.
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>
#include <typeinfo>

#include "graph/capture.h"
#include "runtime/torch/convert.h"
#include "runtime/torch/history.h"
#include "runtime/torch/py_tensor.h"
#include "runtime/torch/torch_host.h"

namespace framejit::torchlib {

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

using torch::autograd::AutogradMeta;

// Runs for each parameter on each call: the fields are read where they lie, past three virtual calls.
__attribute__((always_inline)) inline uint64_t grad_facts(const AutogradMeta* autograd) {
  const bool has_history = autograd && autograd->grad_fn_;
  // A view made without gradients has its base's flag.
  const bool requires_grad =
      has_history || (autograd && (autograd->is_view_ ? autograd->requires_grad() : autograd->requires_grad_));
  return small_facts(0, 0, requires_grad, requires_grad && !has_history);
}

bool matches(PyObject* tensor, const uint64_t* words) {
  const at::Tensor& value = THPVariable_Unpack(tensor);
  const c10::TensorImpl* impl = value.unsafeGetTensorImpl();
  if (impl->key_set().raw_repr() != words[0]) return false;
  const c10::IntArrayRef sizes = impl->sizes(), strides = impl->strides();
  const bool is_cpu = impl->is_cpu();
  const uint64_t small =
      small_facts(static_cast<uint8_t>(c10::typeMetaToScalarType(impl->dtype())), sizes.size(), false, false) |
      grad_facts(torch::autograd::impl::get_autograd_meta(value)) |
      device_word(is_cpu, is_cpu ? -1 : impl->device().index());
  if (small != words[1] || static_cast<uint64_t>(impl->storage_offset()) != words[2]) return false;
  const uint64_t* dims = words + 3;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (static_cast<uint64_t>(sizes[i]) != dims[2 * i] || static_cast<uint64_t>(strides[i]) != dims[2 * i + 1])
      return false;
  return true;
}

}  // namespace

bool has_node_hooks(PyObject* tensor) { return has_node_hooks(THPVariable_Unpack(tensor)); }

bool has_no_grad_hooks(PyObject* tensor) { return !has_gradient_hooks(THPVariable_Unpack(tensor)); }

bool tensor_matches(PyObject* tensor, const uint64_t* words) { return matches(tensor, words); }

namespace {

using Memory __attribute__((may_alias)) = uint64_t;

// The last fields of an implementation hold all facts but those of autograd: sizes and strides up to five dimensions,
// offset, type, device and the key set, beside flags that tell nothing. What is equal there is equal in the facts.
class Fields : public c10::TensorImpl {
 public:
  static constexpr size_t kWords = 15;

  static const Memory* image(const c10::TensorImpl& impl) {
    return reinterpret_cast<const Memory*>(&(impl.*(&Fields::sizes_and_strides_)));
  }
  // Private: lies after the storage.
  static const void* autograd(const c10::TensorImpl& impl) {
    return *reinterpret_cast<const void* const*>(&(impl.*(&Fields::storage_)) + 1);
  }
  // Whether they lie as this expects, and no subclass or Python answers in their place.
  static bool tell(const c10::TensorImpl& impl, PyTypeObject* type) {
    const auto* end = reinterpret_cast<const Memory*>(&(impl.*(&Fields::key_set_)) + 1);
    return end - image(impl) == kWords && autograd(impl) == impl.autograd_meta() &&
           (impl.*(&Fields::sizes_and_strides_)).size() <= C10_SIZES_AND_STRIDES_MAX_INLINE_SIZE &&
           typeid(impl) == typeid(c10::TensorImpl) && (type == tensor_type() || type == parameter_type());
  }
};

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FJ_WITH_WIDE_VECTORS __attribute__((target_clones("avx2", "default")))
#else
#define FJ_WITH_WIDE_VECTORS
#endif

// Four words at a time; the last four take one again.
__attribute__((always_inline)) inline bool same_image(const Memory* a, const Memory* b) {
  using Words __attribute__((vector_size(32))) = uint64_t;
  constexpr size_t kAtOnce = 4;
  Words differs = {};
#pragma GCC unroll 8
  for (size_t i = 0; i < Fields::kWords; i += kAtOnce) {
    const size_t at = std::min(i, Fields::kWords - kAtOnce);
    Words x, y;
    memcpy(&x, a + at, sizeof(x));
    memcpy(&y, b + at, sizeof(y));
    differs |= x ^ y;
  }
  using Half __attribute__((vector_size(16))) = uint64_t;
  Half low, high;
  memcpy(&low, &differs, sizeof(low));
  memcpy(&high, reinterpret_cast<const char*>(&differs) + sizeof(low), sizeof(high));
  low |= high;
  return (low[0] | low[1]) == 0;
}

// Where in `images` this one is, after it was put there if none of the last ones is equal.
uint32_t image_at(std::vector<uint64_t>& images, const Memory* image) {
  constexpr size_t kSearched = 32 * Fields::kWords;
  for (size_t at = images.size() - std::min(images.size(), kSearched); at < images.size(); at += Fields::kWords)
    if (same_image(image, images.data() + at)) return static_cast<uint32_t>(at);
  images.insert(images.end(), image, image + Fields::kWords);
  return static_cast<uint32_t>(images.size() - Fields::kWords);
}

__attribute__((always_inline)) inline bool row_matches(const runtime::TensorRow& row, const uint64_t* images) {
  if (reinterpret_cast<PyObject*>(Py_TYPE(row.tensor)) != row.type) return false;
  const c10::TensorImpl* impl = THPVariable_Unpack(row.tensor).unsafeGetTensorImpl();
  const bool alike = row.image != runtime::TensorRow::kNoImage && Fields::autograd(*impl) == row.autograd &&
                     same_image(Fields::image(*impl), images + row.image) &&
                     grad_facts(static_cast<const AutogradMeta*>(row.autograd)) == row.grad_facts;
  return alike || matches(row.tensor, row.words);
}

}  // namespace

void take_images(runtime::TensorRows& rows) {
  for (runtime::TensorRow& row : rows.rows) {
    const c10::TensorImpl& impl = *THPVariable_Unpack(row.tensor).unsafeGetTensorImpl();
    if (!Fields::tell(impl, Py_TYPE(row.tensor)) || !matches(row.tensor, row.words)) continue;
    row.autograd = Fields::autograd(impl);
    row.grad_facts = grad_facts(static_cast<const AutogradMeta*>(row.autograd));
    row.image = image_at(rows.images, Fields::image(impl));
  }
}

FJ_WITH_WIDE_VECTORS size_t first_mismatch(const runtime::TensorRows& rows) {
  constexpr size_t kAhead = 4;
  const size_t count = rows.rows.size();
  for (size_t i = 0; i < count; ++i) {
    // The address is only hinted at: a tensor further on may be gone.
    if (i + kAhead < count) __builtin_prefetch(rows.rows[i + kAhead].tensor);
    if (!row_matches(rows.rows[i], rows.images.data())) return i;
  }
  return count;
}

}  // namespace framejit::torchlib
