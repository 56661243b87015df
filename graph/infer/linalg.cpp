#include "graph/infer/linalg.h"

#include "graph/infer/iterator.h"

namespace framejit::graph::infer {
namespace {

bool same_kind(const TensorMeta& a, const TensorMeta& b) { return a.dtype == b.dtype && a.device == b.device; }

}  // namespace

InferStatus mm(InferContext& c) {
  const TensorMeta &a = c.self(0), &b = c.self(1);
  if (a.dim() != 2 || b.dim() != 2 || a.sizes[1] != b.sizes[0] || !same_kind(a, b)) return InferStatus::kError;
  c.add_fresh(DimVector{a.sizes[0], b.sizes[1]}, a.dtype, a.device);
  return InferStatus::kOk;
}

InferStatus bmm(InferContext& c) {
  const TensorMeta &a = c.self(0), &b = c.self(1);
  bool fits = a.dim() == 3 && b.dim() == 3 && a.sizes[0] == b.sizes[0] && a.sizes[2] == b.sizes[1];
  if (!fits || !same_kind(a, b)) return InferStatus::kError;
  c.add_fresh(DimVector{a.sizes[0], a.sizes[1], b.sizes[2]}, a.dtype, a.device);
  return InferStatus::kOk;
}

InferStatus addmm(InferContext& c) {
  const TensorMeta &bias = c.self(0), &a = c.self(1), &b = c.self(2);
  if (a.dim() != 2 || b.dim() != 2 || a.sizes[1] != b.sizes[0]) return InferStatus::kError;
  DimVector sizes{a.sizes[0], b.sizes[1]};
  if (!same_kind(a, b) || !same_kind(a, bias) || !expandable_to(bias.sizes, sizes)) return InferStatus::kError;
  c.add_fresh(sizes, a.dtype, a.device);
  return InferStatus::kOk;
}

InferStatus baddbmm(InferContext& c) {
  const TensorMeta &bias = c.self(0), &a = c.self(1), &b = c.self(2);
  bool fits = a.dim() == 3 && b.dim() == 3 && a.sizes[0] == b.sizes[0] && a.sizes[2] == b.sizes[1];
  if (!fits) return InferStatus::kError;
  DimVector sizes{a.sizes[0], a.sizes[1], b.sizes[2]};
  if (!same_kind(a, b) || !same_kind(a, bias) || !expandable_to(bias.sizes, sizes)) return InferStatus::kError;
  c.add_fresh(sizes, a.dtype, a.device);
  return InferStatus::kOk;
}

InferStatus mv(InferContext& c) {
  const TensorMeta &a = c.self(0), &b = c.self(1);
  if (a.dim() != 2 || b.dim() != 1 || a.sizes[1] != b.sizes[0] || !same_kind(a, b)) return InferStatus::kError;
  c.add_fresh(DimVector{a.sizes[0]}, a.dtype, a.device);
  return InferStatus::kOk;
}

InferStatus dot(InferContext& c) {
  const TensorMeta &a = c.self(0), &b = c.self(1);
  if (a.dim() != 1 || b.dim() != 1 || a.sizes[0] != b.sizes[0] || !same_kind(a, b)) return InferStatus::kError;
  c.add_fresh(DimVector{}, a.dtype, a.device);
  return InferStatus::kOk;
}

namespace {

// [batch, sequence, heads, size] in memory, seen as [batch, heads, sequence, size].
TensorMeta& add_heads(InferContext& c, const DimVector& sizes, DType dtype, Device device) {
  TensorMeta& out = c.add_fresh(DimVector{sizes[0], sizes[2], sizes[1], sizes[3]}, dtype, device);
  std::swap(out.sizes[1], out.sizes[2]);
  std::swap(out.strides[1], out.strides[2]);
  return out;
}

bool is_attention(const TensorMeta& q, const TensorMeta& k, const TensorMeta& v) {
  return q.dim() == 4 && k.dim() == 4 && v.dim() == 4 && same_kind(q, k) && same_kind(q, v) && is_floating(q.dtype) &&
         q.sizes[0] == k.sizes[0] && q.sizes[3] == k.sizes[3] && k.sizes[3] == v.sizes[3] && k.sizes[2] == v.sizes[2] &&
         q.device.is_cpu();
}

bool is_batch_of_rows(const TensorMeta& x) { return x.dim() == 3 && is_floating(x.dtype) && x.device.is_cpu(); }

}  // namespace

// query, key, value, dropout_p, is_causal, *, attn_mask, scale -> output, logsumexp
InferStatus flash_attention_cpu(InferContext& c) {
  const TensorMeta &q = c.self(0), &k = c.self(1), &v = c.self(2);
  if (!is_attention(q, k, v)) return c.unsure();
  if (c.environment().attention_like_query) {
    c.add_fresh(q.sizes, q.dtype, q.device).strides = preserved_strides(q);
  } else {
    add_heads(c, q.sizes, q.dtype, q.device);
  }
  DType accumulate = q.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  TensorMeta& lse = c.add_fresh(DimVector{q.sizes[0], q.sizes[2], q.sizes[1]}, accumulate, q.device);
  std::swap(lse.sizes[1], lse.sizes[2]);
  std::swap(lse.strides[1], lse.strides[2]);
  return InferStatus::kOk;
}

// query, key, value, embed_dim, num_head, weights and biases, mask, need_weights, average_attn_weights -> output,
// weights
InferStatus native_multi_head_attention(InferContext& c) {
  const TensorMeta &q = c.self(0), &k = c.self(1);
  const int64_t heads = c.integer(4);
  if (!is_batch_of_rows(q) || !is_batch_of_rows(k) || !same_kind(q, k) || heads <= 0 || q.sizes[2] % heads != 0)
    return c.unsure();
  const bool wants_weights = c.boolean(10), averages = c.boolean(11);
  c.add_fresh(q.sizes, q.dtype, q.device);
  if (!wants_weights) {
    c.add_undefined();
  } else if (averages) {
    c.add_fresh(DimVector{q.sizes[0], q.sizes[1], k.sizes[1]}, q.dtype, q.device);
  } else {
    c.add_fresh(DimVector{q.sizes[0], heads, q.sizes[1], k.sizes[1]}, q.dtype, q.device);
  }
  return InferStatus::kOk;
}

// src, ... -> a tensor like it, contiguous
InferStatus transformer_encoder_layer(InferContext& c) {
  const TensorMeta& src = c.self();
  if (!is_batch_of_rows(src)) return c.unsure();
  c.add_fresh(src.sizes, src.dtype, src.device);
  return InferStatus::kOk;
}

// grad_out, query, key, value, out, logsumexp, ... -> grad_query, grad_key, grad_value
InferStatus flash_attention_cpu_backward(InferContext& c) {
  const TensorMeta &q = c.self(1), &k = c.self(2), &v = c.self(3);
  if (!is_attention(q, k, v)) return c.unsure();
  add_heads(c, q.sizes, q.dtype, q.device);
  add_heads(c, k.sizes, k.dtype, k.device);
  add_heads(c, v.sizes, v.dtype, v.device);
  return InferStatus::kOk;
}

// self -> eigenvalues, eigenvectors: column-major, as LAPACK writes them.
InferStatus linalg_eig(InferContext& c) {
  const TensorMeta& self = c.self();
  const size_t rank = self.sizes.size();
  if (rank < 2 || self.sizes[rank - 1] != self.sizes[rank - 2]) return InferStatus::kError;
  if (!self.device.is_cpu() || self.numel() == 0) return c.unsure();
  if (!is_complex(self.dtype) && self.dtype != DType::kF32 && self.dtype != DType::kF64) return c.unsure();
  const DType dtype = to_complex(self.dtype);
  const DimVector sizes = self.sizes;
  c.add_fresh(std::span<const int64_t>(sizes.data(), rank - 1), dtype, self.device);
  TensorMeta& vectors = c.add_fresh(sizes, dtype, self.device);
  std::swap(vectors.strides[rank - 1], vectors.strides[rank - 2]);
  return InferStatus::kOk;
}

}  // namespace framejit::graph::infer
