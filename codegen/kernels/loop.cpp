#include "codegen/kernels/loop.h"

#include <algorithm>
#include <functional>
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

// Dimensions of more than one element: those of the row last, the farthest apart in memory first.
std::vector<size_t> order_of(const TensorMeta& tensor, Dims reduced) {
  std::vector<size_t> order;
  for (size_t d = 0; d < tensor.sizes.size(); ++d)
    if (tensor.sizes[d] != 1) order.push_back(d);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return tensor.strides[a] > tensor.strides[b]; });
  if (reduced.any()) std::stable_partition(order.begin(), order.end(), [&](size_t d) { return !reduced[d]; });
  return order;
}

bool is_one_walk(const Loop& loop, const std::vector<int64_t>& inner, int64_t inner_size) {
  for (size_t b = 0; b < loop.strides.size(); ++b)
    if (loop.strides[b].back() != inner[b] * inner_size) return false;
  return true;
}

}  // namespace

int64_t Loop::row() const {
  return std::accumulate(sizes.end() - static_cast<ptrdiff_t>(depth), sizes.end(), int64_t{1}, std::multiplies<>());
}

int64_t Loop::rows() const {
  return std::accumulate(sizes.begin(), sizes.end() - static_cast<ptrdiff_t>(depth), int64_t{1}, std::multiplies<>());
}

Loop make_loop(const TensorMeta& tensor, std::span<const TensorMeta> buffers, Dims reduced) {
  Loop loop;
  loop.strides.resize(buffers.size());
  size_t first_of_row = 0;
  bool in_row = reduced.none();
  for (size_t d : order_of(tensor, reduced)) {
    const int64_t size = tensor.sizes[d];
    const bool begins_row = !in_row && reduced[d];
    if (begins_row) first_of_row = loop.sizes.size(), in_row = true;
    std::vector<int64_t> strides;
    strides.reserve(buffers.size());
    for (const TensorMeta& meta : buffers) strides.push_back(stride_along(meta, d, tensor.sizes.size()));
    if (!loop.sizes.empty() && !begins_row && is_one_walk(loop, strides, size)) {
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
  if (reduced.any()) loop.depth = loop.sizes.size() - first_of_row;
  return loop;
}

Access access_of(const Loop& loop, size_t buffer, graph::DType dtype) {
  const std::span<const int64_t> in_row = std::span(loop.strides[buffer]).last(loop.depth);
  if (std::all_of(in_row.begin(), in_row.end(), [](int64_t stride) { return stride == 0; })) return Access::kUniform;
  const int64_t stride = in_row.back();
  if (stride == 0) return Access::kStretched;
  return stride == graph::itemsize(dtype) ? Access::kContiguous : Access::kStrided;
}

}  // namespace framejit::codegen
