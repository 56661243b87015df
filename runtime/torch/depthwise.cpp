#include "runtime/torch/depthwise.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/windows.h"
#include "runtime/torch/convolution_calls.h"
#include "runtime/torch/kernel_stats.h"
#include "runtime/torch/plain_tensors.h"

namespace framejit::torchlib {
namespace {

constexpr int64_t kWorthAThread = 1 << 16;  // multiplications
// A gradient of images is put together of as many parts for each direction.
constexpr int64_t kLargestStride = 16;

std::optional<WindowShape::Pair> pair(const c10::IValue& numbers, int64_t least) {
  const c10::List<int64_t> list = numbers.toIntList();
  if (list.size() != 2 || list.get(0) < least || list.get(1) < least) return std::nullopt;
  return WindowShape::Pair{list.get(0), list.get(1)};
}

std::optional<WindowShape> shape_of(const at::Tensor& images, const at::Tensor& weight, const WindowArguments& window) {
  if (!is_in_planes(images) || !is_in_planes(weight) || window.transposed || window.groups < 2 ||
      images.size(1) != window.groups || weight.size(0) != window.groups || weight.size(1) != 1)
    return std::nullopt;
  const auto stride = pair(window.stride, 1), padding = pair(window.padding, 0), dilation = pair(window.dilation, 1);
  if (!stride || !padding || !dilation || std::max((*stride)[0], (*stride)[1]) > kLargestStride) return std::nullopt;
  const WindowShape shape{
      {images.size(2), images.size(3)}, {weight.size(2), weight.size(3)}, *stride, *padding, *dilation};
  return shape.result()[0] > 0 && shape.result()[1] > 0 ? std::optional(shape) : std::nullopt;
}

// Zeros around a plane are read as elements are.
bool are_finite(const at::Tensor& weight) {
  const float* taps = weight.const_data_ptr<float>();
  return std::all_of(taps, taps + weight.numel(), [](float tap) { return std::isfinite(tap); });
}
bool has_nan(const at::Tensor& tensor) {
  const float* values = tensor.const_data_ptr<float>();
  return std::any_of(values, values + tensor.numel(), [](float value) { return std::isnan(value); });
}

// The planes of a tensor, and the taps of the window of each.
template <class T>
struct Planes {
  explicit Planes(const at::Tensor& tensor)
      : data(static_cast<T*>(tensor.data_ptr())),
        channels(tensor.size(1)),
        count(tensor.size(0) * channels),
        size(tensor.size(2) * tensor.size(3)) {}
  T* at(int64_t plane) const { return data + plane * size; }

  T* data;
  int64_t channels, count, size;
};

std::span<const float> taps_of(const Planes<const float>& weight, int64_t channel) {
  return {weight.at(channel), static_cast<size_t>(weight.size)};
}

template <class Body>
void for_each_part(const WindowShape& shape, int64_t count, int64_t planes_each, const Body& body) {
  const int64_t work = planes_each * shape.result()[0] * shape.result()[1] * shape.taps();
  at::parallel_for(0, count, std::max<int64_t>(1, kWorthAThread / work), body);
}

void sum_windows(const WindowShape& shape, const at::Tensor& images, const at::Tensor& weight, const at::Tensor& bias,
                 const at::Tensor& result) {
  const Planes<const float> from(images), windows(weight);
  const Planes<float> to(result);
  const float* first = bias.defined() ? bias.const_data_ptr<float>() : nullptr;
  for_each_part(shape, from.count, 1, [&](int64_t begin, int64_t end) {
    WindowSums sums(shape);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t channel = i % from.channels;
      sums.run(from.at(i), taps_of(windows, channel), first ? first[channel] : 0, to.at(i));
    }
  });
}

void differentiate_images(const WindowShape& shape, const at::Tensor& gradient, const at::Tensor& weight,
                          const at::Tensor& result) {
  const Planes<const float> from(gradient), windows(weight);
  const Planes<float> to(result);
  for_each_part(shape, from.count, 1, [&](int64_t begin, int64_t end) {
    PlaneGradient planes(shape);
    for (int64_t i = begin; i < end; ++i) planes.run(from.at(i), taps_of(windows, i % from.channels), to.at(i));
  });
}

void differentiate_weight(const WindowShape& shape, const at::Tensor& gradient, const at::Tensor& images,
                          const at::Tensor& result) {
  const Planes<const float> from(gradient), planes(images);
  const auto size = static_cast<size_t>(shape.taps());
  auto* taps = result.data_ptr<float>();
  for_each_part(shape, from.channels, images.size(0), [&](int64_t begin, int64_t end) {
    WindowGradient window(shape);
    for (int64_t channel = begin; channel < end; ++channel)
      for (int64_t i = channel; i < from.count; i += from.channels)
        window.add(planes.at(i), from.at(i), {taps + static_cast<size_t>(channel) * size, size});
  });
}

}  // namespace

bool convolve_planes(torch::jit::Stack& stack) {
  const ConvolutionCall call(stack);
  const at::Tensor& images = call.images;
  const std::optional<WindowShape> shape = shape_of(images, call.weight, call.window);
  if (!shape || (call.bias.defined() && !is_row_of(call.bias, images.size(1))) || !are_finite(call.weight))
    return false;
  const WindowShape::Pair size = shape->result();
  at::Tensor result = at::empty({images.size(0), images.size(1), size[0], size[1]}, images.options());
  sum_windows(*shape, images, call.weight, call.bias, result);
  count(&KernelStats::convolved);
  stack.resize(call.first);
  stack.emplace_back(std::move(result));
  return true;
}

bool differentiate_planes(torch::jit::Stack& stack) {
  const ConvolutionBackwardCall call(stack);
  const std::optional<WindowShape> shape = shape_of(call.images, call.weight, call.window);
  if (!shape || !is_plain_f32(call.gradient, 4) || !are_finite(call.weight)) return false;
  const at::Tensor gradient = call.gradient.contiguous();
  at::Tensor of_images, of_weight;
  if (call.wants_weight()) {
    of_weight = at::zeros_like(call.weight);
    differentiate_weight(*shape, gradient, call.images, of_weight);
    if (has_nan(of_weight)) return false;  // an infinity may have met a zero around a plane
  }
  if (call.wants_images()) {
    of_images = at::empty_like(call.images);
    differentiate_images(*shape, gradient, call.weight, of_images);
  }
  count(&KernelStats::convolved);
  call.give(stack, std::move(of_images), std::move(of_weight));
  return true;
}

}  // namespace framejit::torchlib
