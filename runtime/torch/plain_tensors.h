// What kernels that are not LibTorch's ask of tensors before they read their memory.
#pragma once

#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/core/Tensor.h>

namespace framejit::torchlib {

// Of f32 on the CPU, in memory that holds what it says.
inline bool is_plain_f32(const at::Tensor& tensor, int64_t dim) {
  return tensor.dim() == dim && tensor.device().is_cpu() && tensor.scalar_type() == at::kFloat &&
         tensor.layout() == at::kStrided && !tensor.is_neg() && !at::isTensorSubclassLike(tensor);
}

inline bool is_row_of(const at::Tensor& bias, int64_t columns) {
  return is_plain_f32(bias, 1) && bias.is_contiguous() && bias.size(0) == columns;
}

// Images, or windows, whose planes lie one after the other.
inline bool is_in_planes(const at::Tensor& images) {
  return is_plain_f32(images, 4) && images.numel() > 0 && images.is_contiguous() &&
         images.suggest_memory_format() == at::MemoryFormat::Contiguous;
}

}  // namespace framejit::torchlib
