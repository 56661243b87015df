#include "runtime/torch/depthwise.h"

#include <ATen/Parallel.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/windows.h"
#include "runtime/torch/kernel_stats.h"

namespace framejit::torchlib {
namespace {

constexpr int64_t kWorthAThread = 1 << 16;  // multiplications
// A gradient of images is put together of as many parts for each direction.
constexpr int64_t kLargestStride = 16;

bool is_plain_image(const at::Tensor& tensor) {
  return tensor.dim() == 4 && tensor.numel() > 0 && tensor.device().is_cpu() && tensor.scalar_type() == at::kFloat &&
         tensor.layout() == at::kStrided && !tensor.is_neg() && !at::isTensorSubclassLike(tensor);
}

std::optional<WindowShape::Pair> pair(const c10::IValue& numbers, int64_t least) {
  const c10::List<int64_t> list = numbers.toIntList();
  if (list.size() != 2 || list.get(0) < least || list.get(1) < least) return std::nullopt;
  return WindowShape::Pair{list.get(0), list.get(1)};
}

// Stride, padding, dilation, transposed, output padding, groups.
std::optional<WindowShape> shape_of(const at::Tensor& images, const at::Tensor& weight, const c10::IValue* arguments) {
  const int64_t groups = arguments[5].toInt();
  if (!is_in_planes(images) || !is_in_planes(weight) || arguments[3].toBool() || groups < 2 ||
      images.size(1) != groups || weight.size(0) != groups || weight.size(1) != 1)
    return std::nullopt;
  const auto stride = pair(arguments[0], 1), padding = pair(arguments[1], 0), dilation = pair(arguments[2], 1);
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

bool is_bias_of(const at::Tensor& bias, const at::Tensor& weight) {
  return bias.dim() == 1 && bias.size(0) == weight.size(0) && bias.device().is_cpu() &&
         bias.scalar_type() == at::kFloat && bias.is_contiguous() && !bias.is_neg() && !at::isTensorSubclassLike(bias);
}

}  // namespace

bool is_in_planes(const at::Tensor& images) {
  return is_plain_image(images) && images.is_contiguous() &&
         images.suggest_memory_format() == at::MemoryFormat::Contiguous;
}

// aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation,
//                   bool transposed, SymInt[] output_padding, SymInt groups)
bool convolve_planes(torch::jit::Stack& stack) {
  const size_t first = stack.size() - 9;
  const at::Tensor images = stack[first].toTensor(), weight = stack[first + 1].toTensor();
  const at::Tensor bias = stack[first + 2].isTensor() ? stack[first + 2].toTensor() : at::Tensor();
  const std::optional<WindowShape> shape = shape_of(images, weight, &stack[first + 3]);
  if (!shape || (bias.defined() && !is_bias_of(bias, weight)) || !are_finite(weight)) return false;
  at::Tensor result =
      at::empty({images.size(0), images.size(1), shape->result()[0], shape->result()[1]}, images.options());
  sum_windows(*shape, images, weight, bias, result);
  count(&KernelStats::convolved);
  stack.resize(first);
  stack.emplace_back(std::move(result));
  return true;
}

// aten::convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride,
//                            SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding,
//                            SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)
bool differentiate_planes(torch::jit::Stack& stack) {
  const size_t first = stack.size() - 11;
  at::Tensor gradient = stack[first].toTensor();
  const at::Tensor images = stack[first + 1].toTensor(), weight = stack[first + 2].toTensor();
  const std::optional<WindowShape> shape = shape_of(images, weight, &stack[first + 4]);
  if (!shape || !is_plain_image(gradient) || !are_finite(weight)) return false;
  gradient = gradient.contiguous();
  const c10::List<bool> mask = stack[first + 10].toBoolList();
  at::Tensor of_images, of_weight, of_bias;
  if (mask.get(1)) {
    of_weight = at::zeros_like(weight);
    differentiate_weight(*shape, gradient, images, of_weight);
    if (has_nan(of_weight)) return false;  // an infinity may have met a zero around a plane
  }
  if (mask.get(0)) {
    of_images = at::empty_like(images);
    differentiate_images(*shape, gradient, weight, of_images);
  }
  if (mask.get(2)) of_bias = gradient.sum({0, 2, 3});
  count(&KernelStats::convolved);
  stack.resize(first);
  for (at::Tensor* result : {&of_images, &of_weight, &of_bias}) stack.emplace_back(std::move(*result));
  return true;
}

}  // namespace framejit::torchlib
