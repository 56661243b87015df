#include "graph/infer/iterator.h"

#include <algorithm>
#include <array>

namespace framejit::graph {
namespace {

constexpr size_t kMaxInputs = 8;

DType skip_undefined(DType a, DType b) {
  if (a == DType::kUndefined) return b;
  if (b == DType::kUndefined) return a;
  return promote_types(a, b);
}

DType combine(DType higher, DType lower) {
  if (higher == DType::kUndefined) return lower;
  if (is_complex(higher)) return higher;
  if (is_floating(higher)) return lower != DType::kUndefined && is_complex(lower) ? to_complex(higher) : higher;
  if (lower == DType::kUndefined) return higher;
  if (higher == DType::kBool || is_floating(lower) || is_complex(lower)) return promote_types(higher, lower);
  return higher;
}

// Insertion sort with a comparison that may be undecided (0), which leaves the order as it is but looks further.
template <class Compare>
void sort_dimensions(DimVector& order, Compare&& should_swap) {
  for (size_t i = 1; i < order.size(); ++i) {
    size_t at = i;
    for (size_t before = i; before-- > 0;) {
      int comparison = should_swap(order[before], order[at]);
      if (comparison > 0) {
        std::swap(order[before], order[at]);
        at = before;
      } else if (comparison < 0) {
        break;
      }
    }
  }
}

// Innermost dimension first.
DimVector reversed_dimensions(size_t rank) {
  DimVector order;
  order.resize(rank);
  for (size_t i = 0; i < rank; ++i) order[i] = static_cast<int64_t>(rank - 1 - i);
  return order;
}

bool is_reversed(const DimVector& order) {
  for (size_t i = 0; i < order.size(); ++i)
    if (order[i] != static_cast<int64_t>(order.size() - 1 - i)) return false;
  return true;
}

DimVector expanded(const TensorMeta& meta, std::span<const int64_t> shape) {
  DimVector strides(shape.size(), 0);
  size_t offset = shape.size() - meta.sizes.size();
  for (size_t d = 0; d < meta.sizes.size(); ++d)
    strides[offset + d] = meta.sizes[d] == 1 && shape[offset + d] != 1 ? 0 : meta.strides[d];
  return strides;
}

// The fast set-up of TensorIterator: all inputs of one shape and one layout.
std::optional<DimVector> same_layout(MetaPointers inputs, std::span<const int64_t> shape) {
  bool contiguous = true, channels_last = true, dense = true, same_strides = true;
  const TensorMeta* first = inputs[0];
  for (const TensorMeta* meta : inputs) {
    contiguous = contiguous && meta->is_contiguous();
    channels_last = channels_last && meta->is_channels_last();
    same_strides = same_strides && meta->strides == first->strides;
  }
  if (contiguous) return contiguous_strides(shape);
  if (channels_last) return channels_last_strides(shape);
  for (const TensorMeta* meta : inputs) dense = dense && meta->is_non_overlapping_and_dense();
  if (dense && same_strides) return first->strides;
  return std::nullopt;
}

}  // namespace

bool broadcast_shape(DimVector& a, std::span<const int64_t> b) {
  while (a.size() < b.size()) a.insert(0, 1);
  size_t offset = a.size() - b.size();
  for (size_t d = 0; d < b.size(); ++d) {
    int64_t& size = a[offset + d];
    if (size == b[d] || b[d] == 1) continue;
    if (size != 1) return false;
    size = b[d];
  }
  return true;
}

bool expandable_to(std::span<const int64_t> sizes, std::span<const int64_t> to) {
  if (sizes.size() > to.size()) return false;
  size_t offset = to.size() - sizes.size();
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] != to[offset + d] && sizes[d] != 1) return false;
  return true;
}

void ResultType::add(const TensorMeta& meta) {
  DType current = meta.dtype;
  DType* slot = meta.dim() > 0 ? &dim_ : &zero_;
  if (meta.wrapped_number) {
    if (is_complex(current)) current = to_complex(default_);
    if (is_floating(current)) current = default_;
    if (meta.dim() == 0) slot = &wrapped_;
  }
  *slot = skip_undefined(*slot, current);
  failed_ = failed_ || *slot == DType::kUndefined;
}

DType ResultType::get() const { return failed_ ? DType::kUndefined : combine(dim_, combine(zero_, wrapped_)); }

DimVector iterator_strides(std::span<const int64_t> shape, std::span<const ExpandedStrides> inputs) {
  DimVector order = reversed_dimensions(shape.size());
  sort_dimensions(order, [&](int64_t inner, int64_t outer) {
    for (const ExpandedStrides& input : inputs) {
      int64_t stride_inner = input.strides[inner], stride_outer = input.strides[outer];
      if (stride_inner == 0 || stride_outer == 0) continue;
      if (stride_inner != stride_outer) return stride_inner < stride_outer ? -1 : 1;
      if (shape[inner] > shape[outer]) return 1;
    }
    return 0;
  });
  if (is_reversed(order)) return contiguous_strides(shape);
  DimVector strides;
  strides.resize(shape.size());
  int64_t stride = 1;
  for (int64_t d : order) {
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

std::optional<IteratorOutput> elementwise_output(MetaPointers inputs) {
  std::array<const TensorMeta*, kMaxInputs> present;
  size_t count = 0;
  for (const TensorMeta* meta : inputs)
    if (meta && count < kMaxInputs) present[count++] = meta;
  MetaPointers used(present.data(), count);
  IteratorOutput out;
  if (count == 0) return out;
  bool same_shape = true;
  out.sizes = used[0]->sizes;
  for (size_t i = 1; i < count; ++i) {
    if (used[i]->sizes == out.sizes) continue;
    same_shape = false;
    if (!broadcast_shape(out.sizes, used[i]->sizes)) return std::nullopt;
  }
  if (same_shape) {
    if (auto strides = same_layout(used, out.sizes)) {
      out.strides = std::move(*strides);
      return out;
    }
  }
  std::array<ExpandedStrides, kMaxInputs> strides;
  for (size_t i = 0; i < count; ++i) strides[i].strides = expanded(*used[i], out.sizes);
  out.strides = iterator_strides(out.sizes, {strides.data(), count});
  return out;
}

std::optional<Device> common_device(MetaPointers inputs) {
  std::optional<Device> device;
  for (const TensorMeta* meta : inputs) {
    if (!meta || (meta->device.is_cpu() && meta->dim() == 0)) continue;
    if (device && *device != meta->device) return std::nullopt;
    device = meta->device;
  }
  return device ? device : Device{};
}

DimVector preserved_strides(const TensorMeta& meta) {
  if (meta.is_non_overlapping_and_dense()) return meta.strides;
  size_t rank = meta.sizes.size();
  if (rank == 1) return DimVector{1};
  DimVector order = reversed_dimensions(rank);
  sort_dimensions(order, [&](int64_t inner, int64_t outer) {
    int64_t stride_inner = meta.strides[inner], stride_outer = meta.strides[outer];
    if (stride_inner == 0 || stride_outer == 0) return 0;
    if (stride_inner != stride_outer) return stride_inner < stride_outer ? -1 : 1;
    return meta.sizes[inner] > meta.sizes[outer] ? 1 : 0;
  });
  DimVector strides;
  strides.resize(rank);
  int64_t stride = 1;
  for (int64_t d : order) {
    strides[d] = stride;
    if (meta.sizes[d] > 1) stride *= meta.sizes[d];
  }
  return strides;
}

DimVector strides_like(const TensorMeta& meta, std::optional<MemoryFormat> format) {
  if (!format || *format == MemoryFormat::kPreserve) return preserved_strides(meta);
  return strides_for(meta.sizes, *format);
}

}  // namespace framejit::graph
