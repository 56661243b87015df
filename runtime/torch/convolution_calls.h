// The arguments of LibTorch's convolutions as an OwnKernel finds them, the last of a stack.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <array>

namespace framejit::torchlib {

// Of a window: how it moves over images.
struct WindowArguments {
  const c10::IValue& stride;
  const c10::IValue& padding;
  const c10::IValue& dilation;
  bool transposed;
  int64_t groups;

  // Stride, padding, dilation, transposed, output padding, groups.
  explicit WindowArguments(const c10::IValue* given)
      : stride(given[0]),
        padding(given[1]),
        dilation(given[2]),
        transposed(given[3].toBool()),
        groups(given[5].toInt()) {}
};

// aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation,
//                   bool transposed, SymInt[] output_padding, SymInt groups)
struct ConvolutionCall {
  size_t first;
  at::Tensor images, weight, bias;
  WindowArguments window;

  explicit ConvolutionCall(const torch::jit::Stack& stack)
      : first(stack.size() - 9),
        images(stack[first].toTensor()),
        weight(stack[first + 1].toTensor()),
        bias(stack[first + 2].isTensor() ? stack[first + 2].toTensor() : at::Tensor()),
        window(&stack[first + 3]) {}
};

// aten::convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride,
//                            SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding,
//                            SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)
struct ConvolutionBackwardCall {
  size_t first;
  at::Tensor gradient, images, weight;
  WindowArguments window;

  explicit ConvolutionBackwardCall(const torch::jit::Stack& stack)
      : first(stack.size() - 11),
        gradient(stack[first].toTensor()),
        images(stack[first + 1].toTensor()),
        weight(stack[first + 2].toTensor()),
        window(&stack[first + 4]),
        wanted_(stack[first + 10].toBoolList()) {}

  bool wants_images() const { return wanted_.get(0); }
  bool wants_weight() const { return wanted_.get(1); }

  // Undefined where none is wanted; a bias's is the sum of the gradient.
  void give(torch::jit::Stack& stack, at::Tensor of_images, at::Tensor of_weight) const {
    at::Tensor of_bias = wanted_.get(2) ? gradient.sum({0, 2, 3}) : at::Tensor();
    stack.resize(first);
    for (at::Tensor* result : {&of_images, &of_weight, &of_bias}) stack.emplace_back(std::move(*result));
  }

 private:
  c10::List<bool> wanted_;
};

}  // namespace framejit::torchlib
