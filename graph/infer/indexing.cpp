#include "graph/infer/indexing.h"

#include <algorithm>
#include <array>

#include "graph/infer/creation.h"
#include "graph/infer/iterator.h"
#include "graph/infer/pointwise.h"
#include "graph/infer/views.h"

namespace framejit::graph::infer {
namespace {

bool is_index_type(DType d) { return d == DType::kI64 || d == DType::kI32; }

}  // namespace

// weight, indices, ...
InferStatus embedding(InferContext& c) {
  const TensorMeta &weight = c.self(0), &indices = c.self(1);
  if (weight.dim() != 2 || !is_index_type(indices.dtype)) return InferStatus::kError;
  DimVector sizes = indices.sizes;
  sizes.push_back(weight.sizes[1]);
  c.add_fresh(sizes, weight.dtype, weight.device);
  return InferStatus::kOk;
}

namespace {

constexpr int64_t kSum = 0, kMax = 2;  // of EmbeddingBagMode

// weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx
// -> output, offset2bag, bag_size, max_indices, as the CPU kernel sizes them (ATen/native/EmbeddingBag.cpp).
InferStatus embedding_bag_of(InferContext& c, bool for_backward) {
  const TensorMeta &weight = c.self(0), &indices = c.self(1), &offsets = c.self(2);
  const TensorMeta* scale = c.tensor(6);
  const int64_t mode = c.integer(4);
  if (!weight.device.is_cpu() || weight.dim() != 2 || indices.dim() != 1 || offsets.dim() != 1) return c.unsure();
  if (!is_index_type(indices.dtype) || !is_index_type(offsets.dtype) || mode < kSum || mode > kMax) return c.unsure();
  const int64_t bags = offsets.sizes[0] - (c.boolean(7) ? 1 : 0);
  if (bags < 0) return c.unsure();
  const DType index = indices.dtype == offsets.dtype ? indices.dtype : DType::kI64;
  const bool short_float = weight.dtype == DType::kF32 || weight.dtype == DType::kF16 || weight.dtype == DType::kBF16;
  const bool fast_sum =
      mode == kSum && short_float && weight.strides[1] == 1 && c.integer(8) < 0 && (!scale || scale->strides[0] == 1);
  const int64_t sized = for_backward || mode != kSum ? bags : offsets.sizes[0];
  const DimVector columns{bags, weight.sizes[1]};
  c.add_fresh(columns, weight.dtype, weight.device);
  c.add_fresh(DimVector{fast_sum ? 0 : indices.sizes[0]}, index, weight.device);
  c.add_fresh(DimVector{sized}, index, weight.device);
  c.add_fresh(mode == kMax ? columns : DimVector{sized}, index, weight.device);
  return InferStatus::kOk;
}

}  // namespace

InferStatus embedding_bag(InferContext& c) { return embedding_bag_of(c, /*for_backward=*/true); }
InferStatus embedding_bag_forward_only(InferContext& c) { return embedding_bag_of(c, /*for_backward=*/false); }

// grad_output, indices, num_weights, padding_idx, scale_grad_by_freq
InferStatus embedding_backward(InferContext& c) {
  const TensorMeta &grad = c.self(0), &indices = c.self(1);
  if (!is_index_type(indices.dtype) || grad.dim() == 0) return InferStatus::kError;
  c.add_fresh(DimVector{c.integer(2), grad.sizes.back()}, grad.dtype, grad.device);
  return InferStatus::kOk;
}

namespace {

constexpr size_t kMaxIndices = 8;

struct Indices {
  std::array<const TensorMeta*, kMaxIndices> at{};  // by dimension; null: a full slice
  size_t count = 0;                                 // dimensions looked at
  size_t first = kMaxIndices, last = 0;             // dimensions that have an index
  bool adjacent = true;
};

// False when the rule does not cover the indices: masks (the shape is data), too many dimensions.
bool read_indices(InferContext& c, const TensorMeta& self, Indices& indices) {
  indices.count = c.list_size(1);
  if (indices.count > self.sizes.size() || self.sizes.size() > kMaxIndices) return false;
  for (size_t d = 0; d < indices.count; ++d) {
    const TensorMeta* index = indices.at[d] = c.list_tensor(1, d);
    if (!index) continue;
    if (!is_index_type(index->dtype)) return false;
    if (indices.first == kMaxIndices)
      indices.first = d;
    else if (indices.last + 1 != d)
      indices.adjacent = false;
    indices.last = d;
  }
  return indices.first != kMaxIndices;
}

}  // namespace

// self, indices. LibTorch walks an iterator over self (indexed dimensions replaced by the indices' shape, stride 0) and
// the indices; its output takes the layout that those strides ask for.
InferStatus index(InferContext& c) {
  const TensorMeta& original = c.self();
  Indices indices;
  if (!read_indices(c, original, indices)) return c.unsure();
  DimVector index_shape;
  const TensorMeta* first = nullptr;
  for (const TensorMeta* meta : indices.at) {
    if (!meta) continue;
    if (!first) {
      first = meta;
      index_shape = meta->sizes;
    } else if (!broadcast_shape(index_shape, meta->sizes)) {
      return InferStatus::kError;
    }
  }
  // Indexed dimensions go to the front when they are not side by side.
  DimVector order;
  for (int pass = 0; pass < 2; ++pass)
    for (size_t d = 0; d < original.sizes.size(); ++d) {
      bool indexed = indices.at[d] != nullptr;
      if (indices.adjacent ? pass == 0 : indexed == (pass == 0)) order.push_back(static_cast<int64_t>(d));
    }
  DimVector shape, self_strides;
  size_t before = 0;
  bool placed = false;
  for (int64_t d : order) {
    if (!indices.at[d]) {
      shape.push_back(original.sizes[d]);
      self_strides.push_back(original.strides[d]);
      if (!placed) ++before;
    } else {
      if (original.sizes[d] == 0 && numel_of(index_shape) != 0) return InferStatus::kError;
      if (placed) continue;
      for (int64_t s : index_shape) {
        shape.push_back(s);
        self_strides.push_back(0);
      }
      placed = true;
    }
  }
  std::array<ExpandedStrides, kMaxIndices + 1> inputs;
  size_t count = 0;
  inputs[count++].strides = self_strides;
  for (const TensorMeta* meta : indices.at) {
    if (!meta) continue;
    // Indices are expanded to the common shape first, then stand at `before` with ones around them.
    DimVector strides(shape.size(), 0);
    size_t offset = before + index_shape.size() - meta->sizes.size();
    for (size_t d = 0; d < meta->sizes.size(); ++d)
      if (meta->sizes[d] == shape[offset + d]) strides[offset + d] = meta->strides[d];
    inputs[count++].strides = strides;
  }
  c.add_fresh(shape, original.dtype, original.device).strides = iterator_strides(shape, {inputs.data(), count});
  return InferStatus::kOk;
}

InferStatus index_select(InferContext& c) {
  const TensorMeta &self = c.self(0), &indices = c.self(2);
  int64_t dim = wrap_dim(c.integer(1), self.dim());
  if (dim < 0 || indices.dim() > 1 || !is_index_type(indices.dtype)) return InferStatus::kError;
  DimVector sizes = self.sizes;
  if (!sizes.empty()) sizes[dim] = indices.numel();
  c.add_fresh(sizes, self.dtype, self.device);
  return InferStatus::kOk;
}

InferStatus gather(InferContext& c) {
  const TensorMeta &self = c.self(0), &indices = c.self(2);
  int64_t dim = wrap_dim(c.integer(1), self.dim());
  bool ranks = std::max<int64_t>(self.dim(), 1) == std::max<int64_t>(indices.dim(), 1);
  if (indices.dtype != DType::kI64) return c.unsure();  // what is taken beside it depends on the version
  if (dim < 0 || (!ranks && indices.numel() > 0)) return InferStatus::kError;
  for (int64_t d = 0; d < self.dim() && d < indices.dim(); ++d)
    if (d != dim && indices.sizes[d] > self.sizes[d] && indices.numel() > 0) return InferStatus::kError;
  c.add_fresh(indices.sizes, self.dtype, self.device);
  return InferStatus::kOk;
}

namespace {

// Whether `other` has the rank of an index and, but for one dimension, no fewer elements in any.
bool fits(const TensorMeta& index, const TensorMeta& other, int64_t but_for) {
  auto size = [](const TensorMeta& meta, size_t d) { return meta.dim() == 0 ? 1 : meta.sizes[d]; };
  const int64_t rank = std::max<int64_t>(index.dim(), 1);
  if (rank != std::max<int64_t>(other.dim(), 1)) return false;
  for (int64_t d = 0; d < rank; ++d)
    if (d != but_for && size(index, static_cast<size_t>(d)) > size(other, static_cast<size_t>(d))) return false;
  return true;
}

}  // namespace

InferStatus scatter(InferContext& c) {
  const TensorMeta& self = c.self();
  int64_t dim = wrap_dim(c.integer(1), self.dim());
  if (dim < 0) return InferStatus::kError;
  const TensorMeta* index = c.tensor(2);
  const TensorMeta* source = c.operand(3).is_value() ? c.tensor(3) : nullptr;
  if (!index) return c.unsure();
  if (source && source->dtype != self.dtype) return InferStatus::kError;
  if (index->numel() > 0 && !(fits(*index, self, dim) && (!source || fits(*index, *source, -1))))
    return InferStatus::kError;
  c.add_fresh(self.sizes, self.dtype, self.device);
  return InferStatus::kOk;
}

namespace {

// What index_add says of its arguments before it looks at the indices. A source without dimensions is one element.
bool adds_to_slices(InferContext& c) {
  const TensorMeta &self = c.self(0), &index = c.self(2), &source = c.self(3);
  const int64_t dim = wrap_dim(c.integer(1), self.dim());
  if (dim < 0 || index.dim() > 1 || !is_index_type(index.dtype) || self.dtype != source.dtype) return false;
  if (dim >= std::max<int64_t>(source.dim(), 1)) return false;
  if (index.numel() != (source.dim() == 0 ? 1 : source.sizes[dim])) return false;
  DimVector ours = self.sizes, theirs = source.sizes;
  if (self.dim() != 0 && source.dim() != 0) {
    ours.erase(static_cast<size_t>(dim));
    theirs.erase(static_cast<size_t>(dim));
  }
  return ours == theirs;
}

}  // namespace

InferStatus index_add(InferContext& c) { return adds_to_slices(c) ? same_contiguous(c) : InferStatus::kError; }
InferStatus index_add_inplace(InferContext& c) { return adds_to_slices(c) ? returns_self(c) : InferStatus::kError; }

namespace {

// The format of what cat() joins.
MemoryFormat joined_format(InferContext& c) {
  const MemoryFormat format = c.list_tensor(0, 0)->suggest_memory_format();
  for (size_t i = 1; i < c.list_size(0); ++i)
    if (c.list_tensor(0, i)->suggest_memory_format() != format) return MemoryFormat::kContiguous;
  return format;
}

}  // namespace

InferStatus cat(InferContext& c) {
  size_t count = c.list_size(0);
  if (count == 0) return InferStatus::kError;
  ResultType type(c.environment().default_dtype);
  const TensorMeta* first = nullptr;
  // LibTorch skips empty 1-D tensors, whatever the others' rank.
  auto skipped = [](const TensorMeta& meta) { return meta.dim() == 1 && meta.sizes[0] == 0; };
  for (size_t i = 0; i < count; ++i) {
    const TensorMeta* meta = c.list_tensor(0, i);
    if (!meta || meta->dim() == 0) return InferStatus::kError;
    type.add(*meta);
    if (!first && !skipped(*meta)) first = meta;
  }
  DType dtype = type.get();
  if (dtype == DType::kUndefined) return InferStatus::kError;
  const TensorMeta& shape_of = first ? *first : *c.list_tensor(0, 0);
  int64_t dim = wrap_dim(c.integer(1), shape_of.dim());
  if (dim < 0) return InferStatus::kError;
  DimVector sizes = shape_of.sizes;
  sizes[dim] = 0;
  for (size_t i = 0; i < count; ++i) {
    const TensorMeta& meta = *c.list_tensor(0, i);
    if (skipped(meta)) continue;
    if (meta.dim() != shape_of.dim() || meta.device != shape_of.device) return InferStatus::kError;
    for (int64_t d = 0; d < meta.dim(); ++d)
      if (d != dim && meta.sizes[d] != sizes[d]) return InferStatus::kError;
    sizes[dim] += meta.sizes[dim];
  }
  c.add_fresh(sizes, dtype, shape_of.device, joined_format(c));
  return InferStatus::kOk;
}

InferStatus stack(InferContext& c) {
  size_t count = c.list_size(0);
  if (count == 0) return InferStatus::kError;
  ResultType type(c.environment().default_dtype);
  const TensorMeta* first = c.list_tensor(0, 0);
  for (size_t i = 0; i < count; ++i) {
    const TensorMeta* meta = c.list_tensor(0, i);
    if (!meta || !first || meta->sizes != first->sizes || meta->device != first->device) return InferStatus::kError;
    type.add(*meta);
  }
  int64_t dim = wrap_dim(c.integer(1), first->dim() + 1);
  if (dim < 0 || type.get() == DType::kUndefined) return InferStatus::kError;
  DimVector sizes = first->sizes;
  sizes.insert(static_cast<size_t>(dim), static_cast<int64_t>(count));
  TensorMeta joined = *first;
  if (dim < first->dim()) {  // a view of what cat() gives
    joined.sizes[dim] *= static_cast<int64_t>(count);
    joined.strides = strides_for(joined.sizes, joined_format(c));
    DimVector strides;
    if (!view_strides(joined, sizes, strides)) return c.unsure();
    c.add_fresh(sizes, type.get(), first->device).strides = std::move(strides);
    return InferStatus::kOk;
  }
  // What cat() gives of tensors with one more dimension.
  for (size_t i = 0; i < count; ++i) {
    TensorMeta wide = *c.list_tensor(0, i);
    wide.sizes.push_back(1);
    wide.strides.push_back(1);
    if (wide.suggest_memory_format() != MemoryFormat::kContiguous) return c.unsure();
  }
  c.add_fresh(sizes, type.get(), first->device);
  return InferStatus::kOk;
}

InferStatus repeat(InferContext& c) {
  const TensorMeta& self = c.self();
  auto repeats = c.ints(1);
  if (repeats.size() < self.sizes.size()) return InferStatus::kError;
  DimVector sizes(repeats);
  size_t offset = repeats.size() - self.sizes.size();
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] < 0) return InferStatus::kError;
    if (d >= offset) sizes[d] *= self.sizes[d - offset];
  }
  c.add_fresh(sizes, self.dtype, self.device);
  return InferStatus::kOk;
}

InferStatus flip(InferContext& c) {
  TensorMeta meta = c.self();
  for (int64_t dim : c.ints(1))
    if (wrap_dim(dim, meta.dim()) < 0) return InferStatus::kError;
  meta.strides = preserved_strides(meta);
  c.add_fresh(std::move(meta));
  return InferStatus::kOk;
}

InferStatus roll(InferContext& c) {
  const TensorMeta& self = c.self();
  const size_t shifts = c.ints(1).size(), dims = c.ints(2).size();
  const bool flattens = shifts == 1 && dims == 0;
  if (shifts == 0 || (shifts != dims && !flattens)) return InferStatus::kError;
  for (int64_t dim : c.ints(2))
    if (self.numel() > 0 && (self.dim() == 0 || wrap_dim(dim, self.dim()) < 0)) return InferStatus::kError;
  // One dimension cats two parts, several roll one after another, none flattens: each ends contiguous.
  if (dims != 1) {
    if (self.suggest_memory_format() != MemoryFormat::kContiguous || !self.is_contiguous()) return c.unsure();
    c.add_fresh(self.sizes, self.dtype, self.device);
    return InferStatus::kOk;
  }
  if (self.numel() == 0 || !self.is_contiguous()) return c.unsure();
  c.add_fresh(self.sizes, self.dtype, self.device);
  return InferStatus::kOk;
}

InferStatus slice_backward(InferContext& c) {
  const TensorMeta& grad = c.self();
  c.add_fresh(c.ints(1), grad.dtype, grad.device);
  return InferStatus::kOk;
}

InferStatus unfold_backward(InferContext& c) { return slice_backward(c); }

// self, target, weight, reduction, ignore_index -> output, total_weight
InferStatus nll_loss_forward(InferContext& c) {
  const TensorMeta &self = c.self(0), &target = c.self(1);
  int64_t reduction = c.integer(3);
  bool fits = (self.dim() == 1 && target.dim() <= 1) || (self.dim() == 2 && target.dim() == 1);
  if (!fits || (self.dim() == 2 && self.sizes[0] != target.sizes[0])) return InferStatus::kError;
  DimVector sizes;
  if (reduction == 0 && self.dim() == 2) sizes.push_back(self.sizes[0]);
  c.add_fresh(sizes, self.dtype, self.device);
  c.add_fresh(DimVector{}, self.dtype, self.device);
  return InferStatus::kOk;
}

InferStatus nll_loss_backward(InferContext& c) {
  const TensorMeta& self = c.self(1);
  c.add_fresh(self.sizes, self.dtype, self.device);
  return InferStatus::kOk;
}

InferStatus nll_loss2d_forward(InferContext& c) {
  const TensorMeta &self = c.self(0), &target = c.self(1);
  const bool ranks = self.dim() == 4 && target.dim() == 3;
  if (!ranks || target.sizes != DimVector{self.sizes[0], self.sizes[2], self.sizes[3]}) return InferStatus::kError;
  const bool reduced = c.integer(3) != 0;
  c.add_fresh(reduced ? DimVector{} : target.sizes, self.dtype, self.device);
  c.add_fresh(DimVector{}, self.dtype, self.device);
  return InferStatus::kOk;
}

// v, g, dim -> weight, norms
InferStatus weight_norm(InferContext& c) {
  const TensorMeta &v = c.self(0), &g = c.self(1);
  if (!v.is_contiguous() || !g.is_contiguous() || !v.device.is_cpu()) return c.unsure();
  c.add_fresh(v.sizes, v.dtype, v.device);
  c.add_fresh(g.sizes, g.dtype == DType::kBF16 ? DType::kF32 : g.dtype, g.device);
  return InferStatus::kOk;
}

// grad_output, self, target, reduction, ...: contiguous; what is broadcast or of two types is LibTorch's to refuse
InferStatus pointwise_loss_backward(InferContext& c) {
  const TensorMeta &grad = c.self(0), &self = c.self(1), &target = c.self(2);
  if (!is_floating(self.dtype) || target.dtype != self.dtype || grad.dtype != self.dtype) return c.unsure();
  if (target.sizes != self.sizes || (grad.dim() != 0 && grad.sizes != self.sizes)) return c.unsure();
  c.add_fresh(self.sizes, self.dtype, self.device);
  return InferStatus::kOk;
}

// grad_output, self, target, weight, reduction
InferStatus binary_cross_entropy_backward(InferContext& c) {
  const TensorMeta &grad = c.self(0), &self = c.self(1), &target = c.self(2);
  const TensorMeta* weight = c.tensor(3);
  if (!is_floating(self.dtype) || target.dtype != self.dtype || grad.dtype != self.dtype) return c.unsure();
  if (target.sizes != self.sizes || (grad.dim() != 0 && grad.sizes != self.sizes) || weight) return c.unsure();
  c.add_fresh(self.sizes, self.dtype, self.device).strides = preserved_strides(self);
  return InferStatus::kOk;
}

// self -> output, buffer
InferStatus log_sigmoid_forward(InferContext& c) {
  const TensorMeta& self = c.self();
  if (!is_floating(self.dtype)) return c.unsure();
  for (int i = 0; i < 2; ++i) c.add_fresh(self.sizes, self.dtype, self.device);
  return InferStatus::kOk;
}

// self, target, reduction, delta: as the others, but the result without reduction is made like self.
InferStatus huber_loss(InferContext& c) {
  const TensorMeta* self = c.tensor(0);
  if (!(c.real(3) > 0)) return InferStatus::kError;
  const InferStatus status = pointwise_loss(c);
  if (status == InferStatus::kOk && !is_floating(c.last_result().meta.dtype)) return InferStatus::kError;
  if (status != InferStatus::kOk || c.integer(2) != 0) return status;
  TensorMeta& out = c.last_result().meta;
  if (!self || out.sizes != self->sizes || out.dtype != self->dtype) return c.unsure();
  out.strides = preserved_strides(*self);
  return status;
}

// self, target, reduction
InferStatus pointwise_loss(InferContext& c) {
  const TensorMeta* inputs[] = {c.tensor(0), c.tensor(1)};
  if (!inputs[0] || !inputs[1]) return c.unsure();
  ResultType type(c.environment().default_dtype);
  for (const TensorMeta* meta : inputs) type.add(*meta);
  auto out = elementwise_output(inputs);
  auto device = common_device(inputs);
  if (!out || !device || type.get() == DType::kUndefined) return InferStatus::kError;
  if (c.integer(2) != 0) {
    c.add_fresh(DimVector{}, type.get(), *device);
    return InferStatus::kOk;
  }
  c.add_fresh(out->sizes, type.get(), *device).strides = out->strides;
  return InferStatus::kOk;
}

}  // namespace framejit::graph::infer
