// TensorIterator's arithmetic of shapes and strides, as its outputs see it.
#pragma once

#include <optional>
#include <span>

#include "graph/infer/context.h"

namespace framejit::graph {

// One input of the iterator; null entries are left out.
using MetaPointers = std::span<const TensorMeta* const>;

// Broadcast of two shapes into `a`; false when they do not broadcast.
bool broadcast_shape(DimVector& a, std::span<const int64_t> b);
// Whether `sizes` expands to `to` (in-place operators, expand).
bool expandable_to(std::span<const int64_t> sizes, std::span<const int64_t> to);

// c10's result_type over tensors, wrapped numbers and 0-D tensors; kUndefined when types do not mix.
class ResultType {
 public:
  explicit ResultType(DType default_dtype) : default_(default_dtype) {}
  void add(const TensorMeta& meta);
  DType get() const;

 private:
  DType default_;
  DType dim_ = DType::kUndefined;
  DType zero_ = DType::kUndefined;
  DType wrapped_ = DType::kUndefined;
  bool failed_ = false;
};

// An input given by strides that are already expanded to the iterator's shape.
struct ExpandedStrides {
  DimVector strides;
};

// Strides that the iterator gives a new output: the order of dimensions that its inputs ask for, packed.
DimVector iterator_strides(std::span<const int64_t> shape, std::span<const ExpandedStrides> inputs);

// Shape and strides of a new output of an elementwise iterator over these inputs; nullopt when they do not broadcast.
struct IteratorOutput {
  DimVector sizes;
  DimVector strides;
};
std::optional<IteratorOutput> elementwise_output(MetaPointers inputs);

// The device of an elementwise result: that of the inputs which are not 0-D CPU tensors; nullopt when they differ.
std::optional<Device> common_device(MetaPointers inputs);

// at::empty_like with preserve_format: the strides of a dense tensor, or packed in the same order.
DimVector preserved_strides(const TensorMeta& meta);
DimVector strides_like(const TensorMeta& meta, std::optional<MemoryFormat> format);

}  // namespace framejit::graph
