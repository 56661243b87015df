// Matrix products by oneDNN, where it multiplies faster than LibTorch's BLAS, and convolutions that are products.
#pragma once

#include <ATen/core/stack.h>

namespace framejit::torchlib {

// An OwnKernel each, see own_kernels.h. Their sums are rounded in another order than LibTorch's.
bool multiply(torch::jit::Stack& stack);          // aten::mm(Tensor self, Tensor mat2)
bool multiply_and_add(torch::jit::Stack& stack);  // aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, beta, alpha)
bool multiply_batches(torch::jit::Stack& stack);  // aten::bmm(Tensor self, Tensor mat2)
bool multiply_pixels(torch::jit::Stack& stack);   // aten::convolution, of images that are channels last by 1 x 1
bool differentiate_pixels(torch::jit::Stack& stack);  // aten::convolution_backward, of others by 1 x 1

}  // namespace framejit::torchlib
