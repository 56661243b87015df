// The loop nest of a kernel: which elements of each buffer one row takes, and where the rows begin.
#pragma once

#include <bitset>
#include <cstdint>
#include <span>
#include <vector>

#include "codegen/kernels/kernel.h"
#include "graph/dim_vector.h"
#include "graph/tensor_meta.h"

namespace framejit::codegen {

// Dimensions of a tensor.
using Dims = std::bitset<64>;

// The innermost dimensions are the row; the others count rows. Strides are in bytes, those of one buffer one after the
// other, outermost first.
struct Loop {
  std::vector<int64_t> sizes;  // at least `depth`; the last of them are the row
  std::vector<std::vector<int64_t>> strides;
  size_t depth = 1;

  size_t outer() const { return sizes.size() - depth; }
  int64_t row() const;
  int64_t rows() const;
};

// The loop over a dense tensor of this layout, in the order of its memory. Each operand broadcasts to it. Dimensions
// that every buffer walks as one are one. `reduced`: those of a contiguous tensor that are the row, whole, the last one
// of more than one element among them. With none the row is what is innermost in memory.
Loop make_loop(const graph::TensorMeta& tensor, std::span<const graph::TensorMeta> buffers, Dims reduced);

Access access_of(const Loop& loop, size_t buffer, graph::DType dtype);

}  // namespace framejit::codegen
