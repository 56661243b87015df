#include "graph/infer/spectral.h"

#include <numeric>

namespace framejit::graph::infer {
namespace {

// Strides of _exec_fft's result (ATen/native/mkl/SpectralOps.cpp): the dimensions that are not transformed come first,
// by falling strides of the input, then the transformed ones in their order.
DimVector transformed_strides(const TensorMeta& in, const DimVector& out_sizes, const DimVector& transformed) {
  const size_t rank = in.sizes.size(), batch = rank - transformed.size();
  DimVector order(rank, 0);
  std::iota(order.begin(), order.end(), 0);
  auto is_transformed = [&](int64_t d) {
    return std::find(transformed.begin(), transformed.end(), d) != transformed.end();
  };
  int64_t* batch_end = std::partition(order.begin(), order.end(), [&](int64_t d) { return !is_transformed(d); });
  std::sort(order.begin(), batch_end, [&](int64_t a, int64_t b) {
    return in.strides[static_cast<size_t>(a)] > in.strides[static_cast<size_t>(b)];
  });
  std::copy(transformed.begin(), transformed.end(), batch_end);
  DimVector strides(rank, 0);
  int64_t stride = 1;
  for (size_t i = rank; i-- > 0;) {
    const auto d = static_cast<size_t>(order[i]);
    // Below the batch the result was contiguous, where a size of nothing counts as one.
    strides[d] = stride;
    stride *= i >= batch ? std::max<int64_t>(out_sizes[d], 1) : out_sizes[d];
  }
  return strides;
}

// By falling strides, the last one apart.
DimVector sorted_dims(const TensorMeta& in, DimVector dims) {
  std::sort(dims.begin(), dims.end() - 1, [&](int64_t a, int64_t b) {
    return in.strides[static_cast<size_t>(a)] > in.strides[static_cast<size_t>(b)];
  });
  return dims;
}

// The dimensions, not negative, each once; none where LibTorch may raise.
DimVector dims_of(InferContext& c, const TensorMeta& self) {
  DimVector dims(c.ints(1));
  for (size_t i = 0; i < dims.size(); ++i) {
    dims[i] = wrap_dim(dims[i], self.dim());
    if (dims[i] < 0 || std::count(dims.begin(), dims.begin() + i, dims[i])) return {};
  }
  return dims;
}

bool is_known(InferContext& c, const TensorMeta& self) {
  return c.environment().mkl && self.device.is_cpu() && self.numel() > 0;
}

}  // namespace

// self, dim, normalization, forward
InferStatus fft_c2c(InferContext& c) {
  const TensorMeta& self = c.self();
  DimVector dims = dims_of(c, self);
  if (!is_known(c, self) || dims.empty() || (self.dtype != DType::kC64 && self.dtype != DType::kC128))
    return c.unsure();
  std::sort(dims.begin(), dims.end(), [&](int64_t a, int64_t b) {
    return self.strides[static_cast<size_t>(a)] > self.strides[static_cast<size_t>(b)];
  });
  c.add_fresh(self.sizes, self.dtype, self.device).strides = transformed_strides(self, self.sizes, dims);
  return InferStatus::kOk;
}

// self, dim, normalization, onesided
InferStatus fft_r2c(InferContext& c) {
  const TensorMeta& self = c.self();
  const DimVector dims = dims_of(c, self);
  if (!is_known(c, self) || dims.empty() || (self.dtype != DType::kF32 && self.dtype != DType::kF64)) return c.unsure();
  DimVector sizes = self.sizes;
  const auto last = static_cast<size_t>(dims.back());
  if (c.boolean(3)) sizes[last] = sizes[last] / 2 + 1;
  DimVector strides = transformed_strides(self, sizes, sorted_dims(self, dims));
  c.add_fresh(sizes, to_complex(self.dtype), self.device).strides = strides;
  return InferStatus::kOk;
}

// self, dim, normalization, last_dim_size. All dimensions but the last are transformed first, complex to complex.
InferStatus fft_c2r(InferContext& c) {
  const TensorMeta& self = c.self();
  const DimVector dims = dims_of(c, self);
  const int64_t size = c.integer(3);
  if (!is_known(c, self) || dims.empty() || size < 1) return c.unsure();
  if (self.dtype != DType::kC64 && self.dtype != DType::kC128) return c.unsure();
  TensorMeta between = self;
  if (dims.size() > 1) {
    DimVector first(std::span<const int64_t>(dims.data(), dims.size() - 1));
    std::sort(first.begin(), first.end(), [&](int64_t a, int64_t b) {
      return self.strides[static_cast<size_t>(a)] > self.strides[static_cast<size_t>(b)];
    });
    between.strides = transformed_strides(self, self.sizes, first);
  }
  DimVector sizes = self.sizes;
  sizes[static_cast<size_t>(dims.back())] = size;
  DimVector strides = transformed_strides(between, sizes, DimVector{dims.back()});
  c.add_fresh(sizes, to_real(self.dtype), self.device).strides = strides;
  return InferStatus::kOk;
}

}  // namespace framejit::graph::infer
