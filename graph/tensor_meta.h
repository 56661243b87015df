// All that capture knows of a tensor: everything but its data. Answers the questions that LibTorch's TensorImpl
// answers (contiguity, memory format, overlap), by the same rules.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "graph/device.h"
#include "graph/dim_vector.h"
#include "graph/dtype.h"

namespace framejit::graph {

// Numbers of c10::MemoryFormat and c10::Layout.
enum class MemoryFormat : int8_t { kContiguous = 0, kPreserve = 1, kChannelsLast = 2, kChannelsLast3d = 3 };
enum class Layout : int8_t { kStrided = 0, kSparse = 1, kSparseCsr = 2, kMkldnn = 3, kJagged = 7 };

struct TensorMeta {
  DimVector sizes;
  DimVector strides;
  int64_t storage_offset = 0;
  DType dtype = DType::kUndefined;  // kUndefined: an undefined tensor (a result that a mask left out)
  Device device;
  Layout layout = Layout::kStrided;
  bool requires_grad = false;
  bool wrapped_number = false;  // a Python scalar that became a 0-D tensor: weaker in type promotion

  // A fresh tensor: offset 0, strides of `format` (kContiguous, kChannelsLast or kChannelsLast3d).
  static TensorMeta fresh(std::span<const int64_t> sizes, DType dtype, Device device,
                          MemoryFormat format = MemoryFormat::kContiguous);
  static TensorMeta undefined() { return {}; }

  bool defined() const { return dtype != DType::kUndefined; }
  int64_t dim() const { return static_cast<int64_t>(sizes.size()); }
  int64_t numel() const;
  bool is_contiguous() const;
  bool is_channels_last() const;  // rank 4, strides of NHWC, as is_contiguous(torch.channels_last)
  bool is_channels_last_3d() const;
  bool is_contiguous(MemoryFormat format) const;
  // at::Tensor::suggest_memory_format(): channels last where the strides say so, also when ambiguous or strided.
  MemoryFormat suggest_memory_format(bool channels_last_strides_exact_match = false) const;
  // No holes and no two elements in one place, in some order of dimensions.
  bool is_non_overlapping_and_dense() const;
  // Elements from storage_offset to the last one addressed, plus one; 0 for an empty tensor.
  int64_t storage_extent() const;

  friend bool operator==(const TensorMeta& a, const TensorMeta& b);
  friend bool operator!=(const TensorMeta& a, const TensorMeta& b) { return !(a == b); }
};

DimVector contiguous_strides(std::span<const int64_t> sizes);
DimVector channels_last_strides(std::span<const int64_t> sizes);     // rank 3 or 4
DimVector channels_last_strides_3d(std::span<const int64_t> sizes);  // rank 4 or 5
DimVector strides_for(std::span<const int64_t> sizes, MemoryFormat format);
int64_t numel_of(std::span<const int64_t> sizes);

// "tensor<2x128x256xf32, cpu>"; adds strides=[..], offset=.., grad, wrapped where they are not the usual.
std::string to_string(const TensorMeta& meta);

}  // namespace framejit::graph
