#include "graph/infer/reduction.h"

#include "graph/infer/iterator.h"

namespace framejit::graph::infer {
namespace {

// The dimensions to reduce as bits; false when one is out of range or named twice.
bool dims_mask(InferContext& c, const TensorMeta& self, const ReduceRule& rule, uint64_t& mask) {
  const uint64_t all = ~uint64_t{0};
  if (rule.dim < 0 || !c.has(static_cast<size_t>(rule.dim))) {
    mask = all;
    return true;
  }
  auto at = static_cast<uint8_t>(rule.dim);
  mask = 0;
  if (c.operand(at).is(Operand::Kind::kInt)) {
    int64_t dim = wrap_dim(c.integer(at), self.dim());
    if (dim < 0) return false;
    mask = uint64_t{1} << dim;
    return true;
  }
  std::span<const int64_t> dims = c.ints(at);
  if (dims.empty() && !rule.empty_dims_keep) mask = all;
  for (int64_t requested : dims) {
    int64_t dim = wrap_dim(requested, self.dim());
    if (dim < 0 || (mask >> dim & 1)) return false;
    mask |= uint64_t{1} << dim;
  }
  return true;
}

DimVector reduced_sizes(const TensorMeta& self, uint64_t mask, bool keep) {
  DimVector sizes;
  for (int64_t d = 0; d < self.dim(); ++d) {
    bool reduced = d < 64 && (mask >> d & 1);
    if (!reduced) {
      sizes.push_back(self.sizes[d]);
    } else if (keep) {
      sizes.push_back(1);
    }
  }
  return sizes;
}

// kUndefined where LibTorch raises.
DType reduced_dtype(const InferContext& c, DType in, std::optional<DType> asked, ReduceType type) {
  switch (type) {
    case ReduceType::kSame:
      return asked.value_or(in);
    case ReduceType::kSum:
      return asked ? *asked : is_integral(in, true) ? DType::kI64 : in;
    case ReduceType::kFloat: {
      DType out = asked.value_or(in);
      return is_floating(out) || is_complex(out) ? out : DType::kUndefined;
    }
    case ReduceType::kPromoted:
      return is_integral(in, true) ? c.environment().default_dtype : in;
    case ReduceType::kReal: {
      if (!is_floating(in) && !is_complex(in)) return DType::kUndefined;
      return to_real(asked.value_or(in));
    }
    case ReduceType::kBool:
      return in == DType::kU8 ? DType::kU8 : DType::kBool;
    case ReduceType::kIndex:
      return DType::kI64;
  }
  return DType::kUndefined;
}

bool reduces_nothing_it_needs(const TensorMeta& self, uint64_t mask) {
  for (int64_t d = 0; d < self.dim(); ++d)
    if ((mask >> d & 1) && self.sizes[d] == 0) return true;
  return false;
}

}  // namespace

InferStatus reduce(InferContext& c, const ReduceRule& rule) {
  const TensorMeta& self = c.self();
  uint64_t mask = 0;
  if (self.dim() > 64) return c.unsure();
  if (!dims_mask(c, self, rule, mask)) return InferStatus::kError;
  if (rule.needs_elements && reduces_nothing_it_needs(self, mask)) return InferStatus::kError;
  bool keep = rule.keepdim >= 0 && c.boolean(static_cast<size_t>(rule.keepdim));
  DType dtype =
      reduced_dtype(c, self.dtype, rule.dtype < 0 ? std::nullopt : c.dtype(static_cast<size_t>(rule.dtype)), rule.type);
  if (dtype == DType::kUndefined) return InferStatus::kError;
  DimVector sizes = reduced_sizes(self, mask, keep);
  c.add_fresh(sizes, dtype, self.device);
  if (rule.with_indices) c.add_fresh(sizes, DType::kI64, self.device);
  return InferStatus::kOk;
}

InferStatus scan(InferContext& c, const ScanRule& rule) {
  const TensorMeta& self = c.self();
  if (wrap_dim(c.integer(1), self.dim()) < 0) return InferStatus::kError;
  DType dtype = rule.integers_sum && is_integral(self.dtype, true) ? DType::kI64 : self.dtype;
  if (rule.dtype >= 0) dtype = c.dtype(static_cast<size_t>(rule.dtype)).value_or(dtype);
  TensorMeta& out = c.add_fresh(self.sizes, dtype, self.device);
  if (rule.preserve) out.strides = preserved_strides(self);
  return InferStatus::kOk;
}

InferStatus softmax(InferContext& c) {
  const TensorMeta& self = c.self();
  if (wrap_dim(c.integer(1), self.dim()) < 0) return InferStatus::kError;
  bool half_to_float = c.boolean(2);
  if (half_to_float && !self.device.is_cuda()) return InferStatus::kError;
  if (!is_floating(self.dtype)) return InferStatus::kError;
  c.add_fresh(self.sizes, half_to_float ? DType::kF32 : self.dtype, self.device);
  return InferStatus::kOk;
}

InferStatus safe_softmax(InferContext& c) {
  const TensorMeta& self = c.self();
  if (wrap_dim(c.integer(1), self.dim()) < 0 || !is_floating(self.dtype)) return InferStatus::kError;
  if (!self.is_contiguous()) return c.unsure();  // laid out by where() of a mask with ones for its last dimension
  c.add_fresh(self.sizes, c.dtype(2).value_or(self.dtype), self.device);
  return InferStatus::kOk;
}

InferStatus softmax_backward(InferContext& c) {
  const TensorMeta& grad = c.self(0);
  const TensorMeta& output = c.self(1);
  if (grad.sizes != output.sizes || wrap_dim(c.integer(2), grad.dim()) < 0) return InferStatus::kError;
  c.add_fresh(grad.sizes, c.dtype(3).value_or(grad.dtype), grad.device);
  return InferStatus::kOk;
}

InferStatus var_mean(InferContext& c) {
  ReduceRule rule;
  rule.dim = 1;
  rule.keepdim = 3;
  rule.type = ReduceType::kReal;
  if (InferStatus status = reduce(c, rule); status != InferStatus::kOk) return status;
  rule.type = ReduceType::kFloat;
  return reduce(c, rule);
}

namespace {

InferStatus sorted(InferContext& c, size_t dim_at) {
  const TensorMeta& self = c.self();
  if (wrap_dim(c.integer(dim_at), self.dim()) < 0) return InferStatus::kError;
  TensorMeta& values = c.add_fresh(self.sizes, self.dtype, self.device);
  values.strides = preserved_strides(self);
  DimVector strides = values.strides;
  c.add_fresh(self.sizes, DType::kI64, self.device).strides = strides;
  return InferStatus::kOk;
}

}  // namespace

InferStatus sort(InferContext& c) { return sorted(c, 1); }
InferStatus sort_stable(InferContext& c) { return sorted(c, 2); }

InferStatus topk(InferContext& c) {
  const TensorMeta& self = c.self();
  int64_t k = c.integer(1);
  int64_t dim = wrap_dim(c.integer(2), self.dim());
  if (dim < 0 || k < 0 || k > (self.dim() == 0 ? 1 : self.sizes[dim])) return InferStatus::kError;
  DimVector sizes = self.sizes;
  if (!sizes.empty()) sizes[dim] = k;
  c.add_fresh(sizes, self.dtype, self.device);
  c.add_fresh(sizes, DType::kI64, self.device);
  return InferStatus::kOk;
}

// self, k, dim, keepdim
InferStatus kthvalue(InferContext& c) {
  const TensorMeta& self = c.self();
  const int64_t k = c.integer(1), dim = wrap_dim(c.integer(2), self.dim());
  if (dim < 0 || k < 1 || k > (self.dim() == 0 ? 1 : self.sizes[dim])) return InferStatus::kError;
  ReduceRule rule;
  rule.dim = 2;
  rule.keepdim = 3;
  rule.with_indices = true;
  return reduce(c, rule);
}

InferStatus aminmax(InferContext& c) {
  ReduceRule rule;
  rule.dim = 1;
  rule.keepdim = 2;
  rule.needs_elements = true;
  for (int i = 0; i < 2; ++i)
    if (InferStatus status = reduce(c, rule); status != InferStatus::kOk) return status;
  return InferStatus::kOk;
}

}  // namespace framejit::graph::infer
