// The loop nest of a kernel: which elements of each buffer one row takes, and where the rows begin.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codegen/kernels/kernel.h"
#include "graph/dim_vector.h"
#include "graph/tensor_meta.h"

namespace framejit::codegen {

// The innermost dimension is the row; the others count rows. Strides are in bytes, those of one buffer one after the
// other, outermost first.
struct Loop {
  std::vector<int64_t> sizes;  // at least one; the last is the row
  std::vector<std::vector<int64_t>> strides;

  int64_t row() const { return sizes.back(); }
  int64_t rows() const;
  int64_t row_stride(size_t buffer) const { return strides[buffer].back(); }
};

// The loop over a dense tensor of this layout, in the order of its memory. Each operand broadcasts to it. Dimensions
// that every buffer walks as one are one. `reduces`: the tensor is contiguous, and its last dimension is the row,
// whole.
Loop make_loop(const graph::TensorMeta& tensor, std::span<const graph::TensorMeta> buffers, bool reduces);

Access access_of(const Loop& loop, size_t buffer, graph::DType dtype);

}  // namespace framejit::codegen
