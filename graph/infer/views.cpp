#include "graph/infer/views.h"

#include <algorithm>
#include <limits>

namespace framejit::graph::infer {
namespace {

// Replaces the one -1 in a requested shape; false when the numbers do not fit.
bool infer_shape(std::span<const int64_t> requested, int64_t numel, DimVector& shape) {
  shape.assign(requested);
  int64_t known = 1, hole = -1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == -1) {
      if (hole >= 0) return false;
      hole = static_cast<int64_t>(d);
    } else if (shape[d] < 0) {
      return false;
    } else {
      known *= shape[d];
    }
  }
  if (hole < 0) return known == numel;
  if (known == 0 || numel % known != 0) return false;
  shape[hole] = numel / known;
  return true;
}

}  // namespace

bool view_strides(const TensorMeta& self, const DimVector& shape, DimVector& strides) {
  if (self.sizes.empty()) {
    strides = DimVector(shape.size(), 1);
    return true;
  }
  if (self.numel() == 0 && self.sizes == shape) {
    strides = self.strides;
    return true;
  }
  if (self.numel() == 0) {
    strides = contiguous_strides(shape);
    return true;
  }
  strides.resize(shape.size());
  auto view_d = static_cast<int64_t>(shape.size()) - 1;
  // Elements of the storage chunk that is contiguous so far, and of the view dimensions laid over it.
  int64_t chunk_base = self.strides.back(), tensor_numel = 1, view_numel = 1;
  for (int64_t d = self.dim() - 1; d >= 0; --d) {
    tensor_numel *= self.sizes[d];
    bool chunk_ends = d == 0 || (self.sizes[d - 1] != 1 && self.strides[d - 1] != tensor_numel * chunk_base);
    if (!chunk_ends) continue;
    while (view_d >= 0 && (view_numel < tensor_numel || shape[view_d] == 1)) {
      strides[view_d] = view_numel * chunk_base;
      view_numel *= shape[view_d];
      --view_d;
    }
    if (view_numel != tensor_numel) return false;
    if (d > 0) {
      chunk_base = self.strides[d - 1];
      tensor_numel = view_numel = 1;
    }
  }
  return view_d == -1;
}

InferStatus alias(InferContext& c) {
  const TensorMeta& self = c.self();
  c.add_view(0, self.sizes, self.strides, self.storage_offset);
  return InferStatus::kOk;
}

InferStatus view(InferContext& c) {
  const TensorMeta& self = c.self();
  DimVector shape, strides;
  if (!infer_shape(c.ints(1), self.numel(), shape) || !view_strides(self, shape, strides)) return InferStatus::kError;
  c.add_view(0, shape, strides, self.storage_offset);
  return InferStatus::kOk;
}

// As view, but the schema hides that it shares storage: below autograd the input is a fresh tensor nobody else sees.
InferStatus unsafe_view(InferContext& c) { return view(c); }

InferStatus reshape_alias(InferContext& c) {
  const TensorMeta& self = c.self();
  c.add_view(0, DimVector(c.ints(1)), DimVector(c.ints(2)), self.storage_offset);
  return InferStatus::kOk;
}

InferStatus expand(InferContext& c) {
  const TensorMeta& self = c.self();
  DimVector shape(c.ints(1));
  if (shape.size() < self.sizes.size()) return InferStatus::kError;
  DimVector strides;
  strides.resize(shape.size());
  size_t offset = shape.size() - self.sizes.size();
  if (self.dim() == 0) {
    for (int64_t size : shape)
      if (size < 0) return InferStatus::kError;
    c.add_view(0, shape, DimVector(shape.size(), 0), self.storage_offset);
    return InferStatus::kOk;
  }
  for (size_t d = shape.size(); d-- > 0;) {
    bool is_new = d < offset;
    int64_t size = is_new ? 1 : self.sizes[d - offset];
    int64_t stride = !is_new ? self.strides[d - offset] : d + 1 < shape.size() ? shape[d + 1] * strides[d + 1] : 1;
    if (shape[d] == -1) {
      if (is_new) return InferStatus::kError;
      shape[d] = size;
    }
    if (shape[d] < 0) return InferStatus::kError;
    if (size != shape[d]) {
      if (size != 1) return InferStatus::kError;
      stride = 0;
    }
    strides[d] = stride;
  }
  c.add_view(0, shape, strides, self.storage_offset);
  return InferStatus::kOk;
}

InferStatus permute(InferContext& c) {
  const TensorMeta& self = c.self();
  std::span<const int64_t> dims = c.ints(1);
  if (dims.size() != self.sizes.size()) return InferStatus::kError;
  DimVector sizes, strides;
  uint64_t seen = 0;
  for (int64_t requested : dims) {
    int64_t d = wrap_dim(requested, self.dim());
    if (d < 0 || d >= 64 || (seen >> d & 1)) return InferStatus::kError;
    seen |= uint64_t{1} << d;
    sizes.push_back(self.sizes[d]);
    strides.push_back(self.strides[d]);
  }
  c.add_view(0, sizes, strides, self.storage_offset);
  return InferStatus::kOk;
}

namespace {

InferStatus swapped(InferContext& c, int64_t a, int64_t b) {
  const TensorMeta& self = c.self();
  a = wrap_dim(a, self.dim());
  b = wrap_dim(b, self.dim());
  if (a < 0 || b < 0) return InferStatus::kError;
  DimVector sizes = self.sizes, strides = self.strides;
  if (!sizes.empty()) {
    std::swap(sizes[a], sizes[b]);
    std::swap(strides[a], strides[b]);
  }
  c.add_view(0, sizes, strides, self.storage_offset);
  return InferStatus::kOk;
}

}  // namespace

InferStatus transpose(InferContext& c) { return swapped(c, c.integer(1), c.integer(2)); }

InferStatus t(InferContext& c) {
  const TensorMeta& self = c.self();
  if (self.dim() > 2) return InferStatus::kError;
  return swapped(c, 0, self.dim() < 2 ? 0 : 1);
}

InferStatus slice(InferContext& c) {
  const TensorMeta& self = c.self();
  if (self.dim() == 0) return InferStatus::kError;
  int64_t dim = wrap_dim(c.integer(1), self.dim());
  int64_t step = c.integer(4);
  if (dim < 0 || step <= 0) return InferStatus::kError;
  int64_t size = self.sizes[dim];
  int64_t start = c.integer_or(2, 0);
  int64_t end = c.integer_or(3, std::numeric_limits<int64_t>::max());
  if (start < 0) start += size;
  if (end < 0) end += size;
  start = std::clamp<int64_t>(start, 0, size);
  end = std::clamp<int64_t>(end, start, size);
  DimVector sizes = self.sizes, strides = self.strides;
  sizes[dim] = (end - start + step - 1) / step;
  strides[dim] *= step;
  c.add_view(0, sizes, strides, self.storage_offset + start * self.strides[dim]);
  return InferStatus::kOk;
}

InferStatus select(InferContext& c) {
  const TensorMeta& self = c.self();
  if (self.dim() == 0) return InferStatus::kError;
  int64_t dim = wrap_dim(c.integer(1), self.dim());
  int64_t index = c.integer(2);
  if (dim < 0 || index < -self.sizes[dim] || index >= self.sizes[dim]) return InferStatus::kError;
  if (index < 0) index += self.sizes[dim];
  DimVector sizes = self.sizes, strides = self.strides;
  sizes.erase(static_cast<size_t>(dim));
  strides.erase(static_cast<size_t>(dim));
  c.add_view(0, sizes, strides, self.storage_offset + index * self.strides[dim]);
  return InferStatus::kOk;
}

InferStatus unsqueeze(InferContext& c) {
  const TensorMeta& self = c.self();
  int64_t dim = wrap_dim(c.integer(1), self.dim() + 1);
  if (dim < 0) return InferStatus::kError;
  DimVector sizes = self.sizes, strides = self.strides;
  int64_t stride = dim >= self.dim() ? 1 : self.sizes[dim] * self.strides[dim];
  sizes.insert(static_cast<size_t>(dim), 1);
  strides.insert(static_cast<size_t>(dim), stride);
  c.add_view(0, sizes, strides, self.storage_offset);
  return InferStatus::kOk;
}

namespace {

// Drops dimensions of size 1 that are in the mask.
InferStatus squeezed(InferContext& c, uint64_t mask) {
  const TensorMeta& self = c.self();
  if (self.dim() > 64) return c.unsure();
  DimVector sizes, strides;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if ((mask >> d & 1) && self.sizes[d] == 1) continue;
    sizes.push_back(self.sizes[d]);
    strides.push_back(self.strides[d]);
  }
  c.add_view(0, sizes, strides, self.storage_offset);
  return InferStatus::kOk;
}

}  // namespace

InferStatus squeeze(InferContext& c) { return squeezed(c, ~uint64_t{0}); }

InferStatus squeeze_dim(InferContext& c) {
  int64_t dim = wrap_dim(c.integer(1), c.self().dim());
  if (dim < 0) return InferStatus::kError;
  return squeezed(c, uint64_t{1} << dim);
}

InferStatus squeeze_dims(InferContext& c) {
  uint64_t mask = 0;
  for (int64_t requested : c.ints(1)) {
    int64_t dim = wrap_dim(requested, c.self().dim());
    if (dim < 0 || (mask >> dim & 1)) return InferStatus::kError;
    mask |= uint64_t{1} << dim;
  }
  return squeezed(c, mask);
}

InferStatus unbind(InferContext& c) {
  const TensorMeta& self = c.self();
  if (self.dim() == 0) return InferStatus::kError;
  int64_t dim = wrap_dim(c.integer(1), self.dim());
  if (dim < 0) return InferStatus::kError;
  DimVector sizes = self.sizes, strides = self.strides;
  sizes.erase(static_cast<size_t>(dim));
  strides.erase(static_cast<size_t>(dim));
  for (int64_t i = 0; i < self.sizes[dim]; ++i)
    c.add_view(0, sizes, strides, self.storage_offset + i * self.strides[dim]);
  return InferStatus::kOk;
}

InferStatus split(InferContext& c) {
  const TensorMeta& self = c.self();
  if (self.dim() == 0) return InferStatus::kError;
  int64_t size = c.integer(1);
  int64_t dim = wrap_dim(c.integer(2), self.dim());
  if (dim < 0 || size < 0) return InferStatus::kError;
  int64_t total = self.sizes[dim];
  if (size == 0 && total != 0) return InferStatus::kError;
  int64_t pieces = size == 0 ? 1 : std::max<int64_t>((total + size - 1) / size, 1);
  DimVector sizes = self.sizes;
  for (int64_t i = 0; i < pieces; ++i) {
    sizes[dim] = i + 1 < pieces ? size : total - size * (pieces - 1);
    c.add_view(0, sizes, self.strides, self.storage_offset + i * size * self.strides[dim]);
  }
  return InferStatus::kOk;
}

InferStatus split_with_sizes(InferContext& c) {
  const TensorMeta& self = c.self();
  int64_t dim = wrap_dim(c.integer(2), self.dim());
  if (self.dim() == 0 || dim < 0) return InferStatus::kError;
  DimVector sizes = self.sizes;
  int64_t start = 0;
  for (int64_t piece : c.ints(1)) {
    if (piece < 0) return InferStatus::kError;
    sizes[dim] = piece;
    c.add_view(0, sizes, self.strides, self.storage_offset + start * self.strides[dim]);
    start += piece;
  }
  return start == self.sizes[dim] ? InferStatus::kOk : InferStatus::kError;
}

// The storage's size is not in the meta: LibTorch checks the bounds when it runs.
InferStatus as_strided(InferContext& c) {
  const TensorMeta& self = c.self();
  DimVector sizes(c.ints(1)), strides(c.ints(2));
  if (sizes.size() != strides.size()) return InferStatus::kError;
  c.add_view(0, sizes, strides, c.integer_or(3, self.storage_offset));
  return InferStatus::kOk;
}

InferStatus as_strided_inplace(InferContext& c) {
  DimVector sizes(c.ints(1)), strides(c.ints(2));
  if (sizes.size() != strides.size()) return InferStatus::kError;
  int64_t offset = c.integer_or(3, c.self().storage_offset);
  TensorMeta& meta = c.add_same(0);
  meta.sizes = sizes;
  meta.strides = strides;
  meta.storage_offset = offset;
  return InferStatus::kOk;
}

namespace {

InferStatus in_place(InferContext& c, InferStatus status) {
  if (status == InferStatus::kOk) c.last_result().alias = AliasKind::kSame;
  return status;
}

}  // namespace

InferStatus transpose_inplace(InferContext& c) { return in_place(c, transpose(c)); }
InferStatus t_inplace(InferContext& c) { return in_place(c, t(c)); }
InferStatus unsqueeze_inplace(InferContext& c) { return in_place(c, unsqueeze(c)); }
InferStatus squeeze_inplace(InferContext& c) { return in_place(c, squeeze(c)); }
InferStatus squeeze_dim_inplace(InferContext& c) { return in_place(c, squeeze_dim(c)); }

InferStatus diagonal(InferContext& c) {
  const TensorMeta& self = c.self();
  int64_t offset = c.integer(1);
  int64_t dim1 = wrap_dim(c.integer(2), self.dim()), dim2 = wrap_dim(c.integer(3), self.dim());
  if (self.dim() < 2 || dim1 < 0 || dim2 < 0 || dim1 == dim2) return InferStatus::kError;
  int64_t size = offset >= 0 ? std::min(self.sizes[dim1], self.sizes[dim2] - offset)
                             : std::min(self.sizes[dim1] + offset, self.sizes[dim2]);
  size = std::max<int64_t>(size, 0);
  int64_t storage_offset = self.storage_offset;
  if (size > 0) storage_offset += offset >= 0 ? offset * self.strides[dim2] : -offset * self.strides[dim1];
  DimVector sizes = self.sizes, strides = self.strides;
  int64_t stride = self.strides[dim1] + self.strides[dim2];
  for (int64_t d : {std::max(dim1, dim2), std::min(dim1, dim2)}) {
    sizes.erase(static_cast<size_t>(d));
    strides.erase(static_cast<size_t>(d));
  }
  sizes.push_back(size);
  strides.push_back(stride);
  c.add_view(0, sizes, strides, storage_offset);
  return InferStatus::kOk;
}

InferStatus unfold(InferContext& c) {
  const TensorMeta& self = c.self();
  int64_t dim = wrap_dim(c.integer(1), self.dim()), size = c.integer(2), step = c.integer(3);
  int64_t total = self.dim() == 0 ? 1 : dim < 0 ? 0 : self.sizes[dim];
  if (dim < 0 || size < 0 || size > total || step <= 0) return InferStatus::kError;
  DimVector sizes = self.sizes, strides = self.strides;
  sizes.push_back(size);
  strides.push_back(self.dim() == 0 ? 1 : self.strides[dim]);
  if (self.dim() > 0) {
    sizes[dim] = (total - size) / step + 1;
    strides[dim] *= step;
  }
  c.add_view(0, sizes, strides, self.storage_offset);
  return InferStatus::kOk;
}

InferStatus view_as_real(InferContext& c) {
  const TensorMeta& self = c.self();
  if (!is_complex(self.dtype)) return InferStatus::kError;
  DimVector sizes = self.sizes, strides = self.strides;
  for (int64_t& stride : strides) stride *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  c.add_view(0, sizes, strides, self.storage_offset * 2).dtype = to_real(self.dtype);
  return InferStatus::kOk;
}

InferStatus view_as_complex(InferContext& c) {
  const TensorMeta& self = c.self();
  bool splits = self.dim() > 0 && self.sizes.back() == 2 && self.strides.back() == 1 && self.storage_offset % 2 == 0;
  if (!splits || !is_floating(self.dtype) || self.dtype == DType::kBF16) return InferStatus::kError;
  DimVector sizes = self.sizes, strides = self.strides;
  sizes.erase(sizes.size() - 1);
  strides.erase(strides.size() - 1);
  for (int64_t& stride : strides) {
    if (stride % 2 != 0) return InferStatus::kError;
    stride /= 2;
  }
  c.add_view(0, sizes, strides, self.storage_offset / 2).dtype = to_complex(self.dtype);
  return InferStatus::kOk;
}

}  // namespace framejit::graph::infer
