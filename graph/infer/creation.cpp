#include "graph/infer/creation.h"

#include <cmath>

#include "graph/infer/iterator.h"

namespace framejit::graph::infer {
namespace {

std::optional<DType> optional_dtype(InferContext& c, int8_t at) {
  return at < 0 ? std::nullopt : c.dtype(static_cast<size_t>(at));
}
std::optional<Device> optional_device(InferContext& c, int8_t at) {
  return at < 0 ? std::nullopt : c.device(static_cast<size_t>(at));
}
std::optional<MemoryFormat> optional_format(InferContext& c, int8_t at) {
  return at < 0 ? std::nullopt : c.memory_format(static_cast<size_t>(at));
}

DType dtype_of_fill(InferContext& c, const Operand& fill) {
  switch (fill.kind()) {
    case Operand::Kind::kBool:
      return DType::kBool;
    case Operand::Kind::kInt:
      return DType::kI64;
    case Operand::Kind::kFloat:
      return c.environment().default_dtype;
    case Operand::Kind::kComplex:
      return to_complex(c.environment().default_dtype);
    default:
      c.unsure();
      return DType::kF32;
  }
}

bool any_negative(std::span<const int64_t> sizes) {
  for (int64_t s : sizes)
    if (s < 0) return true;
  return false;
}

// Fresh of these sizes; an asked channels-last format must fit the rank.
InferStatus add_formatted(InferContext& c, std::span<const int64_t> sizes, DType dtype, Device device,
                          MemoryFormat format) {
  if (any_negative(sizes)) return InferStatus::kError;
  bool bad = (format == MemoryFormat::kChannelsLast && sizes.size() != 4) ||
             (format == MemoryFormat::kChannelsLast3d && sizes.size() != 5) || format == MemoryFormat::kPreserve;
  if (bad) return InferStatus::kError;
  c.add_fresh(sizes, dtype, device, format);
  return InferStatus::kOk;
}

}  // namespace

InferStatus factory(InferContext& c, const FactoryRule& rule) {
  const InferEnvironment& environment = c.environment();
  DType dtype = rule.integers ? DType::kI64 : environment.default_dtype;
  Device device = environment.default_device;
  if (rule.like >= 0) {
    const TensorMeta& like = c.self(static_cast<size_t>(rule.like));
    dtype = like.dtype;
    device = like.device;
  } else if (rule.fill >= 0) {
    dtype = dtype_of_fill(c, c.operand(static_cast<size_t>(rule.fill)));
  }
  dtype = optional_dtype(c, rule.dtype).value_or(dtype);
  device = optional_device(c, rule.device).value_or(device);
  if (rule.layout >= 0) c.strided_layout(static_cast<size_t>(rule.layout));
  DimVector sizes(c.ints(static_cast<size_t>(rule.size)));
  if (rule.strides >= 0) {
    DimVector strides(c.ints(static_cast<size_t>(rule.strides)));
    if (strides.size() != sizes.size() || any_negative(sizes) || any_negative(strides)) return InferStatus::kError;
    c.add_fresh(sizes, dtype, device).strides = strides;
    return InferStatus::kOk;
  }
  return add_formatted(c, sizes, dtype, device,
                       optional_format(c, rule.memory_format).value_or(MemoryFormat::kContiguous));
}

InferStatus like(InferContext& c, const LikeRule& rule) {
  TensorMeta meta = c.self();
  auto format = optional_format(c, rule.memory_format);
  if (format == MemoryFormat::kChannelsLast && meta.dim() != 4) return InferStatus::kError;
  if (format == MemoryFormat::kChannelsLast3d && meta.dim() != 5) return InferStatus::kError;
  if (rule.layout >= 0) c.strided_layout(static_cast<size_t>(rule.layout));
  meta.strides = strides_like(meta, format);
  meta.dtype = optional_dtype(c, rule.dtype).value_or(meta.dtype);
  meta.device = optional_device(c, rule.device).value_or(meta.device);
  c.add_fresh(std::move(meta));
  return InferStatus::kOk;
}

InferStatus clone(InferContext& c) { return like(c, LikeRule{.memory_format = 1}); }

// self, dtype, layout, device, pin_memory, non_blocking, memory_format
InferStatus to_copy(InferContext& c) {
  return like(c, LikeRule{.dtype = 1, .layout = 2, .device = 3, .memory_format = 6});
}

namespace {

bool is_int_like(const Operand& o) { return o.is(Operand::Kind::kInt) || o.is(Operand::Kind::kBool); }

// The number of elements; -1 on bad bounds.
int64_t arange_count(InferContext& c, const ArangeRule& rule, DType dtype) {
  static const Operand kZero = Operand::integer(0), kOne = Operand::integer(1);
  const Operand& start = rule.start < 0 ? kZero : c.operand(static_cast<size_t>(rule.start));
  const Operand& end = c.operand(static_cast<size_t>(rule.end));
  const Operand& step = rule.step < 0 ? kOne : c.operand(static_cast<size_t>(rule.step));
  auto number = [&](const Operand& o) {
    if (o.is(Operand::Kind::kFloat)) return o.as_float();
    if (is_int_like(o)) return static_cast<double>(o.is(Operand::Kind::kInt) ? o.as_int() : o.as_bool());
    c.unsure();
    return 0.0;
  };
  double from = number(start), to = number(end), by = number(step);
  if (by == 0 || !std::isfinite(from) || !std::isfinite(to)) return -1;
  if ((by > 0 && to < from) || (by < 0 && to > from)) return -1;
  if (dtype == DType::kI64) {
    // Some versions of LibTorch convert the scalars to int64 first, others the quotient.
    for (double scalar : {from, to, by})
      if (scalar != std::trunc(scalar)) return c.unsure(), -1;
    auto first = static_cast<int64_t>(from), last = static_cast<int64_t>(to), stride = static_cast<int64_t>(by);
    if (is_int_like(start)) first = start.is(Operand::Kind::kInt) ? start.as_int() : start.as_bool();
    if (is_int_like(end)) last = end.is(Operand::Kind::kInt) ? end.as_int() : end.as_bool();
    if (stride == 0) return -1;
    int64_t sign = stride > 0 ? 1 : -1;
    return (last - first + stride - sign) / stride;
  }
  return static_cast<int64_t>(std::ceil((to - from) / by));
}

}  // namespace

InferStatus arange(InferContext& c, const ArangeRule& rule) {
  auto at = static_cast<uint8_t>(rule.dtype);
  DType dtype = DType::kI64;
  for (int8_t i : {rule.start, rule.end, rule.step})
    if (i >= 0 && !is_int_like(c.operand(static_cast<size_t>(i)))) dtype = c.environment().default_dtype;
  dtype = c.dtype(at).value_or(dtype);
  c.strided_layout(at + 1);
  Device device = c.device(at + 2).value_or(c.environment().default_device);
  int64_t count = arange_count(c, rule, dtype);
  if (count < 0) return InferStatus::kError;
  c.add_fresh(DimVector{count}, dtype, device);
  return InferStatus::kOk;
}

// start, end, steps, dtype, layout, device, pin_memory
InferStatus linspace(InferContext& c) {
  int64_t steps = c.integer(2);
  if (steps < 0) return InferStatus::kError;
  bool complex = c.operand(0).is(Operand::Kind::kComplex) || c.operand(1).is(Operand::Kind::kComplex);
  DType dtype = complex ? to_complex(c.environment().default_dtype) : c.environment().default_dtype;
  c.strided_layout(4);
  c.add_fresh(DimVector{steps}, c.dtype(3).value_or(dtype), c.device(5).value_or(c.environment().default_device));
  return InferStatus::kOk;
}

InferStatus scalar_tensor(InferContext& c) {
  c.strided_layout(2);
  c.add_fresh(DimVector{}, c.dtype(1).value_or(c.environment().default_dtype),
              c.device(3).value_or(c.environment().default_device));
  return InferStatus::kOk;
}

namespace {

InferStatus matrix(InferContext& c, int64_t rows, int64_t columns, size_t dtype_at) {
  if (rows < 0 || columns < 0) return InferStatus::kError;
  c.strided_layout(dtype_at + 1);
  c.add_fresh(DimVector{rows, columns}, c.dtype(dtype_at).value_or(c.environment().default_dtype),
              c.device(dtype_at + 2).value_or(c.environment().default_device));
  return InferStatus::kOk;
}

}  // namespace

InferStatus eye(InferContext& c) { return matrix(c, c.integer(0), c.integer(0), 1); }
InferStatus eye_m(InferContext& c) { return matrix(c, c.integer(0), c.integer(1), 2); }

// n, dtype, layout, device, pin_memory
InferStatus randperm(InferContext& c) {
  int64_t n = c.integer(0);
  if (n < 0) return InferStatus::kError;
  c.strided_layout(2);
  c.add_fresh(DimVector{n}, c.dtype(1).value_or(DType::kI64), c.device(3).value_or(c.environment().default_device));
  return InferStatus::kOk;
}

// self, offset, dim1, dim2
InferStatus diag_embed(InferContext& c) {
  const TensorMeta& self = c.self();
  const int64_t rank = self.dim() + 1, first = wrap_dim(c.integer(2), rank), second = wrap_dim(c.integer(3), rank);
  if (self.dim() == 0 || first < 0 || second < 0 || first == second) return InferStatus::kError;
  const int64_t side = self.sizes.back() + std::abs(c.integer(1));
  DimVector sizes;
  for (int64_t d = 0, from = 0; d < rank; ++d)
    sizes.push_back(d == first || d == second ? side : self.sizes[static_cast<size_t>(from++)]);
  c.add_fresh(sizes, self.dtype, self.device);
  return InferStatus::kOk;
}

InferStatus bernoulli(InferContext& c) { return same_contiguous(c); }

InferStatus triangle(InferContext& c) {
  const TensorMeta& self = c.self();
  if (self.dim() < 2) return InferStatus::kError;
  c.add_fresh(self.sizes, self.dtype, self.device);
  return InferStatus::kOk;
}

// A copy in pinned memory, laid out as it is.
InferStatus pin_memory(InferContext& c) {
  const TensorMeta& self = c.self();
  if (!self.device.is_cpu() || !self.is_non_overlapping_and_dense()) return c.unsure();
  c.add_fresh(TensorMeta(self));
  return InferStatus::kOk;
}

InferStatus same_preserved(InferContext& c) { return like(c, LikeRule{}); }

InferStatus same_contiguous(InferContext& c) {
  const TensorMeta& self = c.self();
  c.add_fresh(self.sizes, self.dtype, self.device);
  return InferStatus::kOk;
}

namespace {

// A stride of 0 in a dimension of several elements: at::has_internal_overlap() is sure of it.
bool overlaps_itself(const TensorMeta& meta) {
  for (size_t d = 0; d < meta.sizes.size(); ++d)
    if (meta.strides[d] == 0 && meta.sizes[d] > 1) return true;
  return false;
}

}  // namespace

InferStatus scattered(InferContext& c) {
  const TensorMeta& self = c.self();
  if (overlaps_itself(self)) return same_preserved(c);
  c.add_fresh(TensorMeta(self)).storage_offset = self.storage_offset;
  return InferStatus::kOk;
}

namespace {

bool is_real_floating(const TensorMeta* meta) { return meta && is_floating(meta->dtype); }

}  // namespace

InferStatus normal_of_mean(InferContext& c) { return is_real_floating(c.tensor(0)) ? same_contiguous(c) : c.unsure(); }

InferStatus normal_of_std(InferContext& c) {
  const TensorMeta* std = c.tensor(1);
  if (!is_real_floating(std)) return c.unsure();
  c.add_fresh(std->sizes, std->dtype, std->device);
  return InferStatus::kOk;
}

InferStatus normal_of_both(InferContext& c) {
  const TensorMeta *mean = c.tensor(0), *std = c.tensor(1);
  if (!is_real_floating(mean) || !is_real_floating(std) || std->dtype != mean->dtype || std->device != mean->device)
    return c.unsure();
  DimVector sizes = mean->sizes;
  if (!broadcast_shape(sizes, std->sizes)) return c.unsure();
  c.add_fresh(sizes, mean->dtype, mean->device);
  return InferStatus::kOk;
}

}  // namespace framejit::graph::infer
