#include "graph/infer/normalisation.h"

#include "graph/infer/iterator.h"

namespace framejit::graph::infer {
namespace {

bool is_float_cpu(const TensorMeta& x) { return x.device.is_cpu() && is_floating(x.dtype) && !is_float8(x.dtype); }

bool ends_with(const DimVector& sizes, std::span<const int64_t> tail) {
  if (tail.size() > sizes.size()) return false;
  return std::equal(tail.begin(), tail.end(), sizes.end() - static_cast<ptrdiff_t>(tail.size()));
}

void add_masked(InferContext& c, bool wanted, std::span<const int64_t> sizes, DType dtype, Device device) {
  if (wanted) {
    c.add_fresh(sizes, dtype, device);
  } else {
    c.add_undefined();
  }
}

std::span<const bool> mask_of(InferContext& c, size_t i) {
  static constexpr bool kNone[3] = {false, false, false};
  if (c.operand(i).is(Operand::Kind::kBools) && c.operand(i).size() == 3) return c.operand(i).as_bools();
  c.unsure();
  return kNone;
}

}  // namespace

// input, normalized_shape, weight, bias, eps -> output, mean, rstd
InferStatus native_layer_norm(InferContext& c) {
  const TensorMeta& x = c.self();
  const TensorMeta *weight = c.tensor(2), *bias = c.tensor(3);
  auto shape = c.ints(1);
  if (shape.empty() || !ends_with(x.sizes, shape)) return InferStatus::kError;
  for (const TensorMeta* scale : {weight, bias})
    if (scale && !std::equal(shape.begin(), shape.end(), scale->sizes.begin(), scale->sizes.end()))
      return InferStatus::kError;
  bool mixed = (weight && weight->dtype != x.dtype) || (bias && bias->dtype != x.dtype);
  if (!is_float_cpu(x) || mixed) return c.unsure();
  c.add_fresh(x.sizes, x.dtype, x.device);
  DimVector statistics = x.sizes;
  for (size_t i = 0; i < shape.size(); ++i) statistics[statistics.size() - 1 - i] = 1;
  for (int i = 0; i < 2; ++i) c.add_fresh(statistics, x.dtype, x.device);
  return InferStatus::kOk;
}

// grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask -> grads of input, weight, bias
InferStatus native_layer_norm_backward(InferContext& c) {
  const TensorMeta& x = c.self(1);
  const TensorMeta* weight = c.tensor(5);
  if (!is_float_cpu(x) || (weight && weight->dtype != x.dtype)) return c.unsure();
  auto mask = mask_of(c, 7);
  auto shape = c.ints(2);
  add_masked(c, mask[0], x.sizes, x.dtype, x.device);
  for (int i = 1; i < 3; ++i) add_masked(c, mask[i], shape, x.dtype, x.device);
  return InferStatus::kOk;
}

namespace {

// Adds the output and the two saved statistics; `parameters` is the count of weight, bias and running statistics.
InferStatus batch_norm(InferContext& c, size_t parameters, bool training) {
  const TensorMeta& x = c.self();
  if (x.dim() < 2) return InferStatus::kError;
  for (size_t i = 1; i <= parameters; ++i) {
    const TensorMeta* p = c.tensor(i);
    if (!p) continue;
    if (p->dtype != x.dtype) return c.unsure();
    if (p->numel() != x.sizes[1]) return InferStatus::kError;
  }
  if (!is_float_cpu(x) || x.numel() == 0) return c.unsure();
  DimVector saved = training ? DimVector{x.sizes[1]} : DimVector{0};
  // The Meta kernel preserves other strides, the CPU's does not.
  c.add_fresh(x.sizes, x.dtype, x.device, x.suggest_memory_format());
  for (int i = 0; i < 2; ++i) c.add_fresh(saved, x.dtype, x.device);
  return InferStatus::kOk;
}

}  // namespace

// input, weight, bias, running_mean, running_var, training, momentum, eps -> output, save_mean, save_invstd
InferStatus native_batch_norm(InferContext& c) { return batch_norm(c, 4, c.boolean(5)); }

// input, weight, bias, training, momentum, eps -> output, save_mean, save_invstd
InferStatus batch_norm_no_stats(InferContext& c) { return batch_norm(c, 2, c.boolean(3)); }

// input, weight, bias, running_mean, running_var, momentum, eps -> output, save_mean, save_invstd, reserve
InferStatus batch_norm_with_update(InferContext& c) {
  const TensorMeta& x = c.self();
  InferStatus status = batch_norm(c, 4, /*training=*/true);
  if (status == InferStatus::kOk) c.add_fresh(DimVector{0}, DType::kU8, x.device);
  return status;
}

// grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask
InferStatus native_batch_norm_backward(InferContext& c) {
  const TensorMeta &grad = c.self(0), &x = c.self(1);
  const TensorMeta* weight = c.tensor(2);
  if (!is_float_cpu(x) || (weight && weight->dtype != x.dtype) || x.dim() < 2 || grad.dtype != x.dtype)
    return c.unsure();
  auto mask = mask_of(c, 9);
  if (mask[0]) {
    c.add_fresh(x.sizes, x.dtype, x.device, x.suggest_memory_format());
  } else {
    c.add_undefined();
  }
  for (int i = 1; i < 3; ++i) add_masked(c, mask[i], DimVector{x.sizes[1]}, x.dtype, x.device);
  return InferStatus::kOk;
}

// input, weight, bias, N, C, HxW, group, eps -> output, mean, rstd
InferStatus native_group_norm(InferContext& c) {
  const TensorMeta& x = c.self();
  const TensorMeta* weight = c.tensor(1);
  if (!is_float_cpu(x) || (weight && weight->dtype != x.dtype)) return c.unsure();
  MemoryFormat format = x.suggest_memory_format();
  c.add_fresh(x.sizes, x.dtype, x.device, format);
  for (int i = 0; i < 2; ++i) c.add_fresh(DimVector{c.integer(3), c.integer(6)}, x.dtype, x.device);
  return InferStatus::kOk;
}

// grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask
InferStatus native_group_norm_backward(InferContext& c) {
  const TensorMeta& x = c.self(1);
  const TensorMeta* weight = c.tensor(4);
  if (!is_float_cpu(x) || (weight && weight->dtype != x.dtype)) return c.unsure();
  auto mask = mask_of(c, 9);
  if (mask[0]) {
    c.add_fresh(x.sizes, x.dtype, x.device, x.suggest_memory_format());
  } else {
    c.add_undefined();
  }
  for (int i = 1; i < 3; ++i) add_masked(c, mask[i], DimVector{c.integer(6)}, x.dtype, x.device);
  return InferStatus::kOk;
}

}  // namespace framejit::graph::infer
