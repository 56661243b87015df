#include "runtime/torch/products.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <optional>

#include "runtime/torch/convolution_calls.h"
#include "runtime/torch/kernel_stats.h"
#include "runtime/torch/plain_tensors.h"

// LibTorch exports it, and has no header for it: null where a release does not. `result` becomes alpha times the
// product, and beta times what it holds if that is not zero.
namespace at::native {
__attribute__((weak, visibility("default"))) void mkldnn_matmul(const Tensor& mat1, const Tensor& mat2,
                                                                const Tensor& result, float beta, float alpha);
}

namespace framejit::torchlib {
namespace {

// Multiplications: oneDNN looks longer at its arguments. LibTorch's BLAS takes images one by one.
constexpr double kFewest = 1 << 24, kFewestOfPixels = 1 << 23, kFewestOfGradients = 1 << 22, kFewestOfBatches = 1 << 23;
// Pixels of an image: of fewer, products take those of all images together.
constexpr int64_t kWorthAProduct = 64;

// MKL has its best kernels for Intel's processors. Measured on AMD's alone: benchmarks/kernels_alone.py.
bool is_processor_for_onednn() {
#ifdef __x86_64__
  static const bool found = at::hasMKL() && at::hasMKLDNN() && __builtin_cpu_is("amd");
  return found;
#else
  return false;
#endif
}

// Asked once: no promise holds the function to take f32 on each processor.
bool multiplies_f32() {
  if (!at::native::mkldnn_matmul) return false;
  try {
    const at::Tensor twos = at::full({2, 2}, 2.0, at::kFloat), result = at::ones_like(twos);
    at::native::mkldnn_matmul(twos, twos.t(), result, 0, 1);
    at::native::mkldnn_matmul(twos, twos, result, 1, 1);
    return result.equal(at::full_like(twos, 16.0));
  } catch (const c10::Error&) {
    return false;
  }
}

bool is_onednn_here() {
  if (!is_processor_for_onednn() || !at::globalContext().userEnabledMkldnn()) return false;
  static const bool multiplies = multiplies_f32();
  return multiplies;
}

bool is_work_for(double fewest, const at::Tensor& a, int64_t columns) {
  return static_cast<double>(a.numel()) * static_cast<double>(columns) >= fewest;
}

// One or a batch, each by rows or by columns, without gaps.
bool are_matrices(const at::Tensor& tensor) { return tensor.is_contiguous() || tensor.mT().is_contiguous(); }

bool serves(const at::Tensor& a, const at::Tensor& b) {
  return is_plain_f32(a, 2) && is_plain_f32(b, 2) && a.size(1) == b.size(0) && is_work_for(kFewest, a, b.size(1)) &&
         are_matrices(a) && are_matrices(b) && is_onednn_here();
}

// All of them.
bool are(const c10::IValue& numbers, int64_t number) {
  const c10::List<int64_t> list = numbers.toIntList();
  return std::all_of(list.begin(), list.end(), [number](int64_t each) { return each == number; });
}

bool is_of_single_pixels(const WindowArguments& window) {
  return are(window.padding, 0) && are(window.dilation, 1) && !window.transposed && window.groups == 1;
}

bool serves_pixels(const at::Tensor& images, const at::Tensor& weight) {
  return is_plain_f32(images, 4) && is_plain_f32(weight, 4) && weight.size(2) == 1 && weight.size(3) == 1 &&
         weight.size(1) == images.size(1) && weight.stride(1) == 1 && weight.stride(0) == weight.size(1) &&
         is_work_for(kFewestOfPixels, images, weight.size(0)) && images.is_contiguous(at::MemoryFormat::ChannelsLast) &&
         !images.is_contiguous() && is_onednn_here();
}

// A row is added by LibTorch: within oneDNN's product it costs more, a quarter of the product at some sizes.
at::Tensor product(const at::Tensor& a, const at::Tensor& b, at::Tensor result) {
  at::native::mkldnn_matmul(a, b, result, 0, 1);
  return result;
}

void give(torch::jit::Stack& stack, size_t first, at::Tensor result) {
  count(&KernelStats::multiplied);
  stack.resize(first);
  stack.emplace_back(std::move(result));
}

// Every stride-th pixel of every stride-th row.
at::Tensor pixels_met(const at::Tensor& images, const c10::IValue& stride) {
  const c10::List<int64_t> steps = stride.toIntList();
  return images.slice(2, 0, std::nullopt, steps.get(0)).slice(3, 0, std::nullopt, steps.get(1));
}

// Of (images, channels, pixels): the pixels of all images side by side.
at::Tensor side_by_side(const at::Tensor& images) { return images.transpose(0, 1).flatten(1); }

// A matrix times each image.
at::Tensor times_images(const at::Tensor& matrix, const at::Tensor& images) {
  const int64_t count = images.size(0), pixels = images.size(2);
  if (pixels < kWorthAProduct)
    return product(matrix, side_by_side(images), at::empty({matrix.size(0), count * pixels}, images.options()))
        .unflatten(1, {count, pixels})
        .transpose(0, 1)
        .contiguous();
  at::Tensor result = at::empty({count, matrix.size(0), pixels}, images.options());
  for (int64_t i = 0; i < count; ++i) product(matrix, images[i], result[i]);
  return result;
}

// The sum over the images of one times the other.
at::Tensor sum_of_products(const at::Tensor& gradients, const at::Tensor& images) {
  at::Tensor result = at::empty({gradients.size(1), images.size(1)}, images.options());
  for (int64_t i = 0; i < images.size(0); ++i)
    at::native::mkldnn_matmul(gradients[i], images[i].t(), result, i == 0 ? 0 : 1, 1);
  return result;
}

bool is_one(const c10::IValue& value) { return value.isScalar() && value.toScalar().equal(1); }

}  // namespace

bool multiply(torch::jit::Stack& stack) {
  const size_t first = stack.size() - 2;
  const at::Tensor a = stack[first].toTensor(), b = stack[first + 1].toTensor();
  if (!serves(a, b)) return false;
  give(stack, first, product(a, b, at::empty({a.size(0), b.size(1)}, a.options())));
  return true;
}

bool multiply_and_add(torch::jit::Stack& stack) {
  const size_t first = stack.size() - 5;
  const at::Tensor bias = stack[first].toTensor(), a = stack[first + 1].toTensor(), b = stack[first + 2].toTensor();
  if (!is_one(stack[first + 3]) || !is_one(stack[first + 4]) || !serves(a, b) || !is_row_of(bias, b.size(1)))
    return false;
  give(stack, first, product(a, b, at::empty({a.size(0), b.size(1)}, a.options())).add_(bias));
  return true;
}

bool multiply_batches(torch::jit::Stack& stack) {
  const size_t first = stack.size() - 2;
  const at::Tensor a = stack[first].toTensor(), b = stack[first + 1].toTensor();
  if (!is_plain_f32(a, 3) || !is_plain_f32(b, 3) || a.size(0) != b.size(0) || a.size(2) != b.size(1) ||
      !is_work_for(kFewestOfBatches, a, b.size(2)) || !are_matrices(a) || !are_matrices(b) || !is_onednn_here())
    return false;
  give(stack, first, product(a, b, at::empty({a.size(0), a.size(1), b.size(2)}, a.options())));
  return true;
}

bool multiply_pixels(torch::jit::Stack& stack) {
  const ConvolutionCall call(stack);
  const at::Tensor &images = call.images, &weight = call.weight, &bias = call.bias;
  if (!are(call.window.stride, 1) || !is_of_single_pixels(call.window) || !serves_pixels(images, weight) ||
      (bias.defined() && !is_row_of(bias, weight.size(0))))
    return false;
  const int64_t count = images.size(0), inputs = images.size(1), outputs = weight.size(0);
  const int64_t rows = images.size(2), columns = images.size(3), pixels = rows * columns;
  const at::Tensor result = product(images.as_strided({count * pixels, inputs}, {inputs, 1}),
                                    weight.as_strided({inputs, outputs}, {1, inputs}),
                                    at::empty({count * pixels, outputs}, images.options()));
  if (bias.defined()) result.add_(bias);
  give(stack, call.first,
       result.as_strided({count, outputs, rows, columns}, {pixels * outputs, 1, columns * outputs, outputs}));
  return true;
}

bool differentiate_pixels(torch::jit::Stack& stack) {
  const ConvolutionBackwardCall call(stack);
  const at::Tensor &images = call.images, &weight = call.weight;
  const c10::IValue& stride = call.window.stride;
  if (stride.toIntList().size() != 2 || !is_of_single_pixels(call.window) || !is_in_planes(images) ||
      !is_in_planes(weight) || !is_plain_f32(call.gradient, 4) || weight.size(2) != 1 || weight.size(3) != 1 ||
      !is_work_for(kFewestOfGradients, call.gradient, images.size(1)) || !is_onednn_here())
    return false;
  const at::Tensor gradients = call.gradient.contiguous().flatten(2);
  at::Tensor of_images, of_weight;
  if (call.wants_images()) {
    const at::Tensor pixels = times_images(weight.flatten(1).t(), gradients).view(pixels_met(images, stride).sizes());
    of_images = are(stride, 1) ? pixels : at::zeros_like(images);
    if (!are(stride, 1)) pixels_met(of_images, stride).copy_(pixels);
  }
  if (call.wants_weight())
    of_weight = sum_of_products(gradients, pixels_met(images, stride).flatten(2)).view(weight.sizes());
  count(&KernelStats::multiplied);
  call.give(stack, std::move(of_images), std::move(of_weight));
  return true;
}

}  // namespace framejit::torchlib
