#include "graph/tensor_meta.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace framejit::graph {
namespace {

// c10's compute_channels_last_contiguous: strides are exactly those of the packed permuted layout.
bool packed_in_order(const TensorMeta& t, std::initializer_list<int> inner_to_outer) {
  int64_t expected = 1;
  for (int d : inner_to_outer) {
    if (t.sizes[d] == 1) continue;
    if (t.strides[d] != expected) return false;
    expected *= t.sizes[d];
  }
  return true;
}

// c10's is_channels_last_strides: strides grow in that order; ambiguous cases count as contiguous.
bool strides_like(const TensorMeta& t, std::initializer_list<int> inner_to_outer) {
  int64_t min = 0;
  if (t.strides[1] == 0) return false;
  for (int d : inner_to_outer) {
    if (t.sizes[d] == 0 || t.strides[d] < min) return false;
    if (d == 0 && min == t.strides[1]) return false;
    min = t.strides[d];
    if (t.sizes[d] > 1) min *= t.sizes[d];
  }
  return true;
}

DimVector strides_in_order(std::span<const int64_t> sizes, std::initializer_list<int> inner_to_outer) {
  DimVector strides;
  strides.resize(sizes.size());
  int64_t stride = 1;
  for (int d : inner_to_outer) {
    strides[d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
  }
  return strides;
}

}  // namespace

void DimVector::reserve(size_t count) {
  if (count <= capacity_) return;
  auto* memory = new int64_t[count];
  std::memcpy(memory, data(), size_ * sizeof(int64_t));
  if (capacity_ != kInline) delete[] heap_;
  heap_ = memory;
  capacity_ = static_cast<uint32_t>(count);
}

int64_t numel_of(std::span<const int64_t> sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return n;
}

DimVector contiguous_strides(std::span<const int64_t> sizes) {
  DimVector strides;
  strides.resize(sizes.size());
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
  }
  return strides;
}

DimVector channels_last_strides(std::span<const int64_t> sizes) {
  FJ_CHECK(sizes.size() == 3 || sizes.size() == 4, "channels_last needs rank 3 or 4, got {}", sizes.size());
  return sizes.size() == 4 ? strides_in_order(sizes, {1, 3, 2, 0}) : strides_in_order(sizes, {0, 2, 1});
}

DimVector channels_last_strides_3d(std::span<const int64_t> sizes) {
  FJ_CHECK(sizes.size() == 4 || sizes.size() == 5, "channels_last_3d needs rank 4 or 5, got {}", sizes.size());
  return sizes.size() == 5 ? strides_in_order(sizes, {1, 4, 3, 2, 0}) : strides_in_order(sizes, {0, 3, 2, 1});
}

DimVector strides_for(std::span<const int64_t> sizes, MemoryFormat format) {
  switch (format) {
    case MemoryFormat::kChannelsLast:
      return channels_last_strides(sizes);
    case MemoryFormat::kChannelsLast3d:
      return channels_last_strides_3d(sizes);
    default:
      return contiguous_strides(sizes);
  }
}

TensorMeta TensorMeta::fresh(std::span<const int64_t> sizes, DType dtype, Device device, MemoryFormat format) {
  TensorMeta meta;
  meta.sizes.assign(sizes);
  meta.strides = strides_for(sizes, format);
  meta.dtype = dtype;
  meta.device = device;
  return meta;
}

int64_t TensorMeta::numel() const { return numel_of(sizes); }

bool TensorMeta::is_contiguous() const {
  int64_t expected = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 1) continue;
    if (strides[d] != expected) return numel() == 0;
    expected *= sizes[d];
  }
  return true;
}

bool TensorMeta::is_channels_last() const { return dim() == 4 && packed_in_order(*this, {1, 3, 2, 0}); }
bool TensorMeta::is_channels_last_3d() const { return dim() == 5 && packed_in_order(*this, {1, 4, 3, 2, 0}); }

bool TensorMeta::is_contiguous(MemoryFormat format) const {
  switch (format) {
    case MemoryFormat::kChannelsLast:
      return is_channels_last();
    case MemoryFormat::kChannelsLast3d:
      return is_channels_last_3d();
    default:
      return is_contiguous();
  }
}

MemoryFormat TensorMeta::suggest_memory_format(bool exact) const {
  if (dim() == 4 && strides_like(*this, {1, 3, 2, 0}) && (!exact || strides == channels_last_strides(sizes)))
    return MemoryFormat::kChannelsLast;
  if (dim() == 5 && strides_like(*this, {1, 4, 3, 2, 0}) && (!exact || strides == channels_last_strides_3d(sizes)))
    return MemoryFormat::kChannelsLast3d;
  return MemoryFormat::kContiguous;
}

bool TensorMeta::is_non_overlapping_and_dense() const {
  if (is_contiguous() || is_channels_last() || is_channels_last_3d()) return true;
  if (dim() == 1) return sizes[0] < 2 || strides[0] == 1;
  DimVector order;
  order.resize(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    if (sizes[a] < 2 || sizes[b] < 2) return sizes[a] >= 2 && sizes[b] < 2;
    return strides[a] < strides[b];
  });
  int64_t expected = 1;
  for (int64_t d : order) {
    if (sizes[d] < 2) return true;
    if (strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

int64_t TensorMeta::storage_extent() const {
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return 0;
    last += (sizes[d] - 1) * strides[d];
  }
  return last + 1;
}

bool operator==(const TensorMeta& a, const TensorMeta& b) {
  return a.dtype == b.dtype && a.device == b.device && a.layout == b.layout && a.storage_offset == b.storage_offset &&
         a.requires_grad == b.requires_grad && a.wrapped_number == b.wrapped_number && a.sizes == b.sizes &&
         a.strides == b.strides;
}

std::string to_string(const TensorMeta& meta) {
  if (!meta.defined()) return "none";
  std::string text = "tensor<";
  for (int64_t s : meta.sizes) text += fmt::format("{}x", s);
  text += fmt::format("{}, {}", dtype_name(meta.dtype), to_string(meta.device));
  if (meta.layout != Layout::kStrided) text += fmt::format(", layout={}", static_cast<int>(meta.layout));
  if (meta.strides != contiguous_strides(meta.sizes))
    text += fmt::format(", strides=[{}]", fmt::join(meta.strides.begin(), meta.strides.end(), ", "));
  if (meta.storage_offset != 0) text += fmt::format(", offset={}", meta.storage_offset);
  if (meta.requires_grad) text += ", grad";
  if (meta.wrapped_number) text += ", wrapped";
  return text + ">";
}

}  // namespace framejit::graph
