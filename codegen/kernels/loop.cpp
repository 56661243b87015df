#include "codegen/kernels/loop.h"

#include <algorithm>
#include <numeric>

namespace framejit::codegen {

using graph::TensorMeta;

namespace {

// In bytes, 0 along dimensions that it is broadcast over.
int64_t stride_along(const TensorMeta& meta, size_t dim, size_t rank) {
  const size_t missing = rank - meta.sizes.size();
  if (dim < missing || meta.sizes[dim - missing] == 1) return 0;
  return meta.strides[dim - missing] * graph::itemsize(meta.dtype);
}

// Dimensions of more than one element, the farthest apart in memory first.
std::vector<size_t> memory_order(const TensorMeta& tensor) {
  std::vector<size_t> order;
  for (size_t d = 0; d < tensor.sizes.size(); ++d)
    if (tensor.sizes[d] != 1) order.push_back(d);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return tensor.strides[a] > tensor.strides[b]; });
  return order;
}

bool is_one_walk(const Loop& loop, const std::vector<int64_t>& inner, int64_t inner_size) {
  for (size_t b = 0; b < loop.strides.size(); ++b)
    if (loop.strides[b].back() != inner[b] * inner_size) return false;
  return true;
}

}  // namespace

int64_t Loop::rows() const {
  return std::accumulate(sizes.begin(), sizes.end() - 1, int64_t{1}, [](int64_t a, int64_t b) { return a * b; });
}

Loop make_loop(const TensorMeta& tensor, std::span<const TensorMeta> buffers, bool reduces) {
  Loop loop;
  loop.strides.resize(buffers.size());
  for (size_t d : memory_order(tensor)) {
    const int64_t size = tensor.sizes[d];
    const bool is_row = reduces && d + 1 == tensor.sizes.size();
    std::vector<int64_t> strides;
    strides.reserve(buffers.size());
    for (const TensorMeta& meta : buffers) strides.push_back(stride_along(meta, d, tensor.sizes.size()));
    if (!loop.sizes.empty() && !is_row && is_one_walk(loop, strides, size)) {
      loop.sizes.back() *= size;
      for (size_t b = 0; b < buffers.size(); ++b) loop.strides[b].back() = strides[b];
      continue;
    }
    loop.sizes.push_back(size);
    for (size_t b = 0; b < buffers.size(); ++b) loop.strides[b].push_back(strides[b]);
  }
  if (loop.sizes.empty()) {
    loop.sizes.push_back(1);
    for (std::vector<int64_t>& strides : loop.strides) strides.push_back(0);
  }
  return loop;
}

Access access_of(const Loop& loop, size_t buffer, graph::DType dtype) {
  const int64_t stride = loop.row_stride(buffer);
  if (stride == 0) return Access::kUniform;
  return stride == graph::itemsize(dtype) ? Access::kContiguous : Access::kStrided;
}

}  // namespace framejit::codegen
