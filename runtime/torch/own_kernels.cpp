#include "runtime/torch/own_kernels.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <mutex>

#include "base/mersenne.h"
#include "runtime/torch/depthwise.h"
#include "runtime/torch/kernel_stats.h"
#include "runtime/torch/products.h"

namespace framejit::torchlib {
namespace {

constexpr int64_t kWorthAState = 256;  // elements

// What at::bernoulli_distribution<double> draws (ATen/core/DistributionsHelper.h), with the generator's lock held.
bool draw_with(at::CPUGeneratorImpl& generator, double p, at::Tensor& result) {
  at::mt19937 engine = generator.engine();
  at::mt19937_data_pod data = engine.data();
  const size_t left = static_cast<size_t>(data.left_) - 1;  // numbers of this state
  if (!engine.is_valid() || (left != 0 && data.next_ + left != MersenneState::kSize)) return false;
  MersenneState state{data.state_, MersenneState::kSize - left};
  const auto bound = static_cast<uint64_t>(std::ceil(std::ldexp(p, 53)));
  const auto size = static_cast<size_t>(result.numel());
  if (result.scalar_type() == at::kBool) {
    draw_below(state, bound, std::span(reinterpret_cast<uint8_t*>(result.data_ptr<bool>()), size));
  } else {
    draw_below(state, bound, std::span(result.data_ptr<float>(), size));
  }
  data.state_ = state.words;
  data.next_ = static_cast<uint32_t>(state.next);
  data.left_ = static_cast<int>(MersenneState::kSize - state.next + 1);
  engine.set_data(data);
  generator.set_engine(engine);
  return true;
}

// Some releases draw by MKL, on some processors.
bool libtorch_draws_so() {
  at::Generator theirs = at::detail::createCPUGenerator(11), ours = at::detail::createCPUGenerator(11);
  auto& own = *at::check_generator<at::CPUGeneratorImpl>(ours);
  for (at::ScalarType type : {at::kFloat, at::kBool})
    for (double p : {0.9, 0.5, 1.0})
      for (int64_t size : {1, 301, 700}) {
        at::Tensor expected = at::empty({size}, type), result = at::empty({size}, type);
        expected.bernoulli_(p, theirs);
        if (!draw_with(own, p, result) || !result.equal(expected)) return false;
      }
  return own.random64() == at::check_generator<at::CPUGeneratorImpl>(theirs)->random64();
}

// aten::bernoulli_.float(Tensor(a!) self, float p, *, Generator? generator)
bool draw(torch::jit::Stack& stack) {
  const size_t first = stack.size() - 3;
  if (!stack[first].isTensor() || !stack[first + 1].isDouble() || !stack[first + 2].isNone()) return false;
  at::Tensor self = stack[first].toTensor();
  const double p = stack[first + 1].toDouble();
  const bool is_known = self.scalar_type() == at::kFloat || self.scalar_type() == at::kBool;
  if (!self.device().is_cpu() || !is_known || !self.is_contiguous() || self.is_neg() || self.numel() < kWorthAState ||
      !(p >= 0 && p <= 1) || at::isTensorSubclassLike(self))
    return false;
  static const bool same = libtorch_draws_so();
  if (!same) return false;
  const at::Generator& generator = at::detail::getDefaultCPUGenerator();
  auto& drawn_from = *at::check_generator<at::CPUGeneratorImpl>(generator);
  {
    std::lock_guard<std::mutex> lock(drawn_from.mutex_);
    if (!draw_with(drawn_from, p, self)) return false;
  }
  count(&KernelStats::drawn);
  stack.resize(first);
  stack.emplace_back(std::move(self));
  return true;
}

bool convolve(torch::jit::Stack& stack) { return multiply_pixels(stack) || convolve_planes(stack); }
bool differentiate(torch::jit::Stack& stack) { return differentiate_pixels(stack) || differentiate_planes(stack); }

constexpr OwnKernelRow kRows[] = {
    {"aten::bernoulli_.float", draw, Numbers::kToTheBit},
    {"aten::mm", multiply, Numbers::kRounded},
    {"aten::addmm", multiply_and_add, Numbers::kRounded},
    {"aten::bmm", multiply_batches, Numbers::kRounded},
    {"aten::convolution", convolve, Numbers::kRounded},
    {"aten::convolution_backward", differentiate, Numbers::kRounded},
};

}  // namespace

const OwnKernelRow* find_own_kernel(std::string_view op) {
  for (const OwnKernelRow& row : kRows)
    if (row.op == op) return &row;
  return nullptr;
}

}  // namespace framejit::torchlib
