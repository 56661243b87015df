#include "graph/infer/convolution.h"

#include <algorithm>

#include "graph/infer/iterator.h"

namespace framejit::graph::infer {
namespace {

// One number stands for all dimensions.
int64_t at(std::span<const int64_t> list, size_t d) { return list.size() == 1 ? list[0] : list[d]; }

bool lists_fit(size_t spatial, std::initializer_list<std::span<const int64_t>> lists) {
  for (auto list : lists)
    if (list.size() != 1 && list.size() != spatial) return false;
  return true;
}

// In one dimension LibTorch computes in two, of which the first is 1.
// It makes the input contiguous before, so that the weight alone says in which format.
TensorMeta in_two_dimensions(const TensorMeta& meta) {
  TensorMeta wide = meta;
  if (meta.dim() != 3) return wide;
  wide.sizes.insert(2, 1);
  wide.strides.insert(2, meta.sizes[2] * meta.strides[2]);
  return wide;
}

// The format that CPU convolutions compute in: channels last when input or weight is. In three dimensions bf16 alone
// surely has that; f32 has it where oneDNN computes, which depends on sizes and threads.
std::optional<MemoryFormat> conv_format(const TensorMeta& input, const TensorMeta& weight) {
  MemoryFormat a = input.dim() == 3 ? MemoryFormat::kContiguous : input.suggest_memory_format();
  MemoryFormat b = in_two_dimensions(weight).suggest_memory_format();
  if (a == MemoryFormat::kChannelsLast || b == MemoryFormat::kChannelsLast) return MemoryFormat::kChannelsLast;
  if (a != MemoryFormat::kChannelsLast3d && b != MemoryFormat::kChannelsLast3d) return MemoryFormat::kContiguous;
  if (input.dtype == DType::kBF16) return MemoryFormat::kChannelsLast3d;
  if (input.dtype == DType::kF32) return std::nullopt;
  return MemoryFormat::kContiguous;
}

void add_in_format(InferContext& c, const DimVector& sizes, const TensorMeta& like, MemoryFormat format) {
  TensorMeta& out = c.add_fresh(sizes, like.dtype, like.device, sizes.size() == 3 ? MemoryFormat::kContiguous : format);
  if (sizes.size() != 3) return;
  DimVector strides = strides_for(in_two_dimensions(out).sizes, format);
  strides.erase(2);
  out.strides = std::move(strides);
}

struct ConvArgs {
  std::span<const int64_t> stride, padding, dilation, output_padding;
  bool transposed;
  int64_t groups;
};

// Output sizes; false when the arguments do not fit each other.
bool conv_sizes(const TensorMeta& x, const TensorMeta& w, const ConvArgs& a, DimVector& out) {
  size_t spatial = static_cast<size_t>(w.dim()) - 2;
  if (!lists_fit(spatial, {a.stride, a.padding, a.dilation, a.output_padding}) || a.groups <= 0) return false;
  int64_t in_channels = a.transposed ? w.sizes[0] : w.sizes[1] * a.groups;
  if (x.sizes[1] != in_channels || w.sizes[0] % a.groups != 0) return false;
  out = DimVector{x.sizes[0], a.transposed ? w.sizes[1] * a.groups : w.sizes[0]};
  for (size_t d = 0; d < spatial; ++d) {
    int64_t size = x.sizes[d + 2], kernel = at(a.dilation, d) * (w.sizes[d + 2] - 1) + 1;
    int64_t stride = at(a.stride, d), padding = at(a.padding, d);
    if (stride <= 0 || padding < 0 || at(a.dilation, d) <= 0) return false;
    int64_t result = a.transposed ? (size - 1) * stride - 2 * padding + kernel + at(a.output_padding, d)
                                  : (size + 2 * padding - kernel) / stride + 1;
    if (!a.transposed && size + 2 * padding < kernel) return false;
    if (result < 0) return false;
    out.push_back(result);
  }
  return true;
}

// Any kernel of the CPU refuses other dilations, though one that has nothing to do takes 0.
bool dilates(std::span<const int64_t> dilation, bool nothing_to_do) {
  return std::all_of(dilation.begin(), dilation.end(), [&](int64_t d) { return d > 0 || (d == 0 && nothing_to_do); });
}

// Ranks and types that CPU's common path takes; others (empty, mixed types) go to LibTorch.
bool is_common_conv(const TensorMeta& x, const TensorMeta& w) {
  bool type = x.dtype == DType::kF32 || x.dtype == DType::kF64 || x.dtype == DType::kBF16 || x.dtype == DType::kF16 ||
              x.dtype == DType::kI64;
  return x.dim() >= 3 && x.dim() <= 5 && w.dim() == x.dim() && x.dtype == w.dtype && x.device == w.device &&
         x.device.is_cpu() && type && x.numel() > 0 && w.numel() > 0;
}

}  // namespace

// input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
InferStatus convolution(InferContext& c) {
  const TensorMeta &x = c.self(0), &w = c.self(1);
  if (x.device.is_cpu() && !dilates(c.ints(5), x.numel() == 0)) return InferStatus::kError;
  if (!is_common_conv(x, w)) return c.unsure();
  ConvArgs args{c.ints(3), c.ints(4), c.ints(5), c.ints(7), c.boolean(6), c.integer(8)};
  if (c.is_unsure()) return InferStatus::kNoRule;
  DimVector sizes;
  if (!conv_sizes(x, w, args, sizes)) return InferStatus::kError;
  const std::optional<MemoryFormat> format = conv_format(x, w);
  if (numel_of(sizes) == 0 || !format) return c.unsure();
  add_in_format(c, sizes, x, *format);
  return InferStatus::kOk;
}

// grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask
InferStatus convolution_backward(InferContext& c) {
  const TensorMeta &grad = c.self(0), &x = c.self(1), &w = c.self(2);
  if (!is_common_conv(x, w) || grad.dtype != x.dtype || !c.operand(10).is(Operand::Kind::kBools)) return c.unsure();
  auto mask = c.operand(10).as_bools();
  if (mask.size() != 3) return InferStatus::kError;
  const std::optional<MemoryFormat> format = conv_format(x, w);
  if (!format) return c.unsure();
  if (mask[0]) {
    add_in_format(c, x.sizes, x, *format);
  } else {
    c.add_undefined();
  }
  if (mask[1]) {
    add_in_format(c, w.sizes, w, *format);
  } else {
    c.add_undefined();
  }
  if (mask[2]) {
    c.add_fresh(DimVector{grad.sizes[1]}, x.dtype, x.device);
  } else {
    c.add_undefined();
  }
  return InferStatus::kOk;
}

namespace {

int64_t pooled_size(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, bool ceil) {
  int64_t numerator = size + 2 * padding - dilation * (kernel - 1) - 1 + (ceil ? stride - 1 : 0);
  // Rounds down also below zero.
  int64_t out = numerator / stride - (numerator % stride < 0 ? 1 : 0) + 1;
  if (ceil && (out - 1) * stride >= size + padding) --out;
  return out;
}

struct PoolArgs {
  std::span<const int64_t> kernel, stride, padding, dilation;
  bool ceil;
};

// [N,] C, H, W pooled; false when the arguments do not fit.
bool pool_sizes(const TensorMeta& x, const PoolArgs& a, DimVector& out) {
  if (x.dim() != 3 && x.dim() != 4) return false;
  auto stride = a.stride.empty() ? a.kernel : a.stride;
  if (!lists_fit(2, {a.kernel, stride, a.padding, a.dilation})) return false;
  out = x.sizes;
  size_t first = x.sizes.size() - 2;
  for (size_t d = 0; d < 2; ++d) {
    int64_t k = at(a.kernel, d), p = at(a.padding, d);
    if (k <= 0 || at(stride, d) <= 0 || p < 0 || at(a.dilation, d) <= 0 || k / 2 < p) return false;
    out[first + d] = pooled_size(x.sizes[first + d], k, at(stride, d), p, at(a.dilation, d), a.ceil);
    if (out[first + d] < 1) return false;
  }
  return numel_of(out) > 0;
}

constexpr int64_t kOne[] = {1};

}  // namespace

// self, kernel_size, stride, padding, dilation, ceil_mode -> output, indices
InferStatus max_pool2d_with_indices(InferContext& c) {
  const TensorMeta& x = c.self();
  PoolArgs args{c.ints(1), c.ints(2), c.ints(3), c.ints(4), c.boolean(5)};
  if (c.is_unsure()) return InferStatus::kNoRule;
  DimVector sizes;
  if (!pool_sizes(x, args, sizes)) return InferStatus::kError;
  MemoryFormat format = x.suggest_memory_format();
  c.add_fresh(sizes, x.dtype, x.device, format);
  c.add_fresh(sizes, DType::kI64, x.device, format);
  return InferStatus::kOk;
}

// self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
InferStatus avg_pool2d(InferContext& c) {
  const TensorMeta& x = c.self();
  PoolArgs args{c.ints(1), c.ints(2), c.ints(3), kOne, c.boolean(4)};
  if (c.is_unsure()) return InferStatus::kNoRule;
  DimVector sizes;
  if (!pool_sizes(x, args, sizes) || (c.has(6) && c.integer(6) == 0)) return InferStatus::kError;
  c.add_fresh(sizes, x.dtype, x.device, x.suggest_memory_format());
  return InferStatus::kOk;
}

InferStatus backward_like_input(InferContext& c) {
  const TensorMeta& x = c.self(1);
  c.add_fresh(x.sizes, x.dtype, x.device, x.suggest_memory_format());
  return InferStatus::kOk;
}

namespace {

bool adaptive_sizes(InferContext& c, const TensorMeta& x, DimVector& sizes) {
  auto out = c.ints(1);
  if ((x.dim() != 3 && x.dim() != 4) || out.size() != 2) return false;
  sizes = x.sizes;
  sizes[sizes.size() - 2] = out[0];
  sizes[sizes.size() - 1] = out[1];
  return x.numel() > 0 && out[0] >= 0 && out[1] >= 0;
}

}  // namespace

InferStatus adaptive_avg_pool2d(InferContext& c) {
  const TensorMeta& x = c.self();
  DimVector sizes;
  if (!adaptive_sizes(c, x, sizes)) return c.unsure();
  c.add_fresh(sizes, x.dtype, x.device, x.suggest_memory_format());
  return InferStatus::kOk;
}

InferStatus adaptive_max_pool2d(InferContext& c) {
  const TensorMeta& x = c.self();
  DimVector sizes;
  if (!adaptive_sizes(c, x, sizes)) return c.unsure();
  c.add_fresh(sizes, x.dtype, x.device, x.suggest_memory_format());
  c.add_fresh(sizes, DType::kI64, x.device, x.suggest_memory_format());
  return InferStatus::kOk;
}

// self, pad (last dimension first, before and after), value
InferStatus constant_pad_nd(InferContext& c) {
  const TensorMeta& x = c.self();
  auto pad = c.ints(1);
  if (pad.size() % 2 != 0 || static_cast<int64_t>(pad.size()) > 2 * x.dim()) return InferStatus::kError;
  bool crops_only = std::all_of(pad.begin(), pad.end(), [](int64_t p) { return p <= 0; });
  if (crops_only) {
    // A clone of a narrowed view keeps the view's layout.
    TensorMeta narrowed = x;
    for (size_t i = 0; i < pad.size() / 2; ++i) narrowed.sizes[x.sizes.size() - 1 - i] += pad[2 * i] + pad[2 * i + 1];
    for (int64_t s : narrowed.sizes)
      if (s < 0) return InferStatus::kError;
    narrowed.strides = preserved_strides(narrowed);
    c.add_fresh(std::move(narrowed));
    return InferStatus::kOk;
  }
  DimVector sizes = x.sizes;
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    int64_t& size = sizes[x.sizes.size() - 1 - i];
    size += pad[2 * i] + pad[2 * i + 1];
    if (size < 0) return InferStatus::kError;
  }
  c.add_fresh(sizes, x.dtype, x.device, x.suggest_memory_format());
  return InferStatus::kOk;
}

// self, output_size, ...
InferStatus upsample2d(InferContext& c) {
  const TensorMeta& x = c.self();
  auto out = c.ints(1);
  if (x.dim() != 4 || out.size() != 2) return c.unsure();
  c.add_fresh(DimVector{x.sizes[0], x.sizes[1], out[0], out[1]}, x.dtype, x.device, x.suggest_memory_format());
  return InferStatus::kOk;
}

// grad_output, output_size, input_size, ...
InferStatus upsample2d_backward(InferContext& c) {
  const TensorMeta& grad = c.self();
  auto in = c.ints(2);
  if (grad.dim() != 4 || in.size() != 4) return c.unsure();
  c.add_fresh(in, grad.dtype, grad.device, grad.suggest_memory_format());
  return InferStatus::kOk;
}

namespace {

// The number of places of a kernel over an area: product over both dimensions; negative when it does not fit.
int64_t blocks(std::span<const int64_t> size, std::span<const int64_t> kernel, std::span<const int64_t> dilation,
               std::span<const int64_t> padding, std::span<const int64_t> stride) {
  int64_t count = 1;
  for (size_t d = 0; d < 2; ++d) {
    int64_t room = size[d] + 2 * padding[d] - (dilation[d] * (kernel[d] - 1) + 1);
    if (stride[d] <= 0 || room < 0) return -1;
    count *= room / stride[d] + 1;
  }
  return count;
}

}  // namespace

// grad_output, output_size, input_size, ...: contiguous in any format
InferStatus upsample_bicubic2d_backward(InferContext& c) {
  const TensorMeta& grad = c.self();
  auto in = c.ints(2);
  if (grad.dim() != 4 || in.size() != 4) return c.unsure();
  c.add_fresh(in, grad.dtype, grad.device);
  return InferStatus::kOk;
}

namespace {

// self, padding: before and after of the last dimension, then of the one before it, and so on. A batch may stand
// before.
InferStatus edge_pad(InferContext& c, bool mirrors) {
  const TensorMeta& x = c.self();
  auto pad = c.ints(1);
  const size_t spatial = pad.size() / 2, rank = x.sizes.size();
  if (pad.size() % 2 != 0 || (rank != spatial + 1 && rank != spatial + 2) || x.numel() == 0) return c.unsure();
  DimVector sizes = x.sizes;
  for (size_t k = 0; k < spatial; ++k) {
    int64_t& size = sizes[rank - 1 - k];
    if (mirrors && (pad[2 * k] >= size || pad[2 * k + 1] >= size)) return InferStatus::kError;
    size += pad[2 * k] + pad[2 * k + 1];
    if (size < 1) return c.unsure();
  }
  c.add_fresh(sizes, x.dtype, x.device, x.suggest_memory_format());
  return InferStatus::kOk;
}

}  // namespace

InferStatus reflection_pad(InferContext& c) { return edge_pad(c, true); }
InferStatus replication_pad(InferContext& c) { return edge_pad(c, false); }

// self, groups
InferStatus channel_shuffle(InferContext& c) {
  const TensorMeta& x = c.self();
  const int64_t groups = c.integer(1);
  if (x.dim() < 3 || x.numel() == 0 || groups <= 0 || x.sizes[1] % groups != 0) return c.unsure();
  c.add_fresh(x.sizes, x.dtype, x.device, x.suggest_memory_format());
  return InferStatus::kOk;
}

// self, kernel_size, dilation, padding, stride
InferStatus im2col(InferContext& c) {
  const TensorMeta& x = c.self();
  auto kernel = c.ints(1), dilation = c.ints(2), padding = c.ints(3), stride = c.ints(4);
  bool lists = kernel.size() == 2 && dilation.size() == 2 && padding.size() == 2 && stride.size() == 2;
  if (!lists || (x.dim() != 3 && x.dim() != 4)) return c.unsure();
  size_t first = x.sizes.size() - 2;
  int64_t count = blocks({x.sizes.data() + first, 2}, kernel, dilation, padding, stride);
  if (count <= 0) return InferStatus::kError;
  DimVector sizes;
  if (x.dim() == 4) sizes.push_back(x.sizes[0]);
  sizes.push_back(x.sizes[first - 1] * kernel[0] * kernel[1]);
  sizes.push_back(count);
  c.add_fresh(sizes, x.dtype, x.device);
  return InferStatus::kOk;
}

// self, output_size, kernel_size, dilation, padding, stride
InferStatus col2im(InferContext& c) {
  const TensorMeta& x = c.self();
  auto out = c.ints(1), kernel = c.ints(2), dilation = c.ints(3), padding = c.ints(4), stride = c.ints(5);
  bool lists =
      out.size() == 2 && kernel.size() == 2 && dilation.size() == 2 && padding.size() == 2 && stride.size() == 2;
  if (!lists || (x.dim() != 2 && x.dim() != 3)) return c.unsure();
  size_t channels = x.sizes.size() - 2;
  int64_t area = kernel[0] * kernel[1];
  if (area <= 0 || x.sizes[channels] % area != 0 || blocks(out, kernel, dilation, padding, stride) != x.sizes.back())
    return InferStatus::kError;
  DimVector sizes;
  if (x.dim() == 3) sizes.push_back(x.sizes[0]);
  sizes.push_back(x.sizes[channels] / area);
  sizes.push_back(out[0]);
  sizes.push_back(out[1]);
  c.add_fresh(sizes, x.dtype, x.device);
  return InferStatus::kOk;
}

// self, indices, output_size
InferStatus max_unpool2d(InferContext& c) {
  const TensorMeta &self = c.self(), &indices = c.self(1);
  auto out = c.ints(2);
  const size_t rank = self.sizes.size();
  if (!self.device.is_cpu() || out.size() != 2 || (rank != 3 && rank != 4)) return c.unsure();
  if (indices.dtype != DType::kI64 || indices.sizes != self.sizes) return c.unsure();
  DimVector sizes = self.sizes;
  sizes[rank - 2] = out[0];
  sizes[rank - 1] = out[1];
  for (size_t d = 1; d < rank; ++d)
    if (sizes[d] <= 0) return c.unsure();
  c.add_fresh(sizes, self.dtype, self.device, self.suggest_memory_format());
  return InferStatus::kOk;
}

}  // namespace framejit::graph::infer
