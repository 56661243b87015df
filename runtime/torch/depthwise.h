// Convolutions of f32 on the CPU that take each channel alone: plane by plane, where LibTorch's gather channels first.
#pragma once

#include <ATen/core/stack.h>

namespace framejit::torchlib {

// An OwnKernel each, see own_kernels.h. Of images in planes.
bool convolve_planes(torch::jit::Stack& stack);       // aten::convolution
bool differentiate_planes(torch::jit::Stack& stack);  // aten::convolution_backward

}  // namespace framejit::torchlib
