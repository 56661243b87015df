#include "runtime/torch/products.h"

#include <ATen/Context.h>
#include <ATen/TensorSubclassLikeUtils.h>

#include <optional>

#include "runtime/torch/kernel_stats.h"
#include "runtime/torch/op_entry.h"

namespace framejit::torchlib {
namespace {

// Multiplications: oneDNN looks longer at its arguments, and lays the second one out anew.
constexpr double kFewest = 1 << 25;

// MKL has its best kernels for Intel's processors. Measured on AMD's alone: benchmarks/kernels_alone.py.
bool is_processor_for_onednn() {
#ifdef __x86_64__
  static const bool found = at::hasMKL() && at::hasMKLDNN() && __builtin_cpu_is("amd");
  return found;
#else
  return false;
#endif
}

const OpEntry* linear() {
  static const OpEntry* const op = op_entry_by_name("mkldnn::_linear_pointwise");
  return op;
}

bool is_plain_f32(const at::Tensor& tensor, int64_t dim) {
  return tensor.dim() == dim && tensor.device().is_cpu() && tensor.scalar_type() == at::kFloat &&
         tensor.layout() == at::kStrided && !tensor.is_neg() && !at::isTensorSubclassLike(tensor);
}

// Not with a first factor that is a transposed one: oneDNN is slower there.
bool serves(const at::Tensor& a, const at::Tensor& b) {
  return is_plain_f32(a, 2) && is_plain_f32(b, 2) && a.size(1) == b.size(0) &&
         static_cast<double>(a.numel()) * static_cast<double>(b.size(1)) >= kFewest && a.is_contiguous() &&
         (b.is_contiguous() || b.t().is_contiguous()) && is_processor_for_onednn() &&
         at::globalContext().userEnabledMkldnn() && linear();
}

bool run(torch::jit::Stack& stack, size_t first, at::Tensor a, const at::Tensor& b, at::Tensor bias) {
  stack.resize(first);
  stack.emplace_back(std::move(a));
  stack.emplace_back(b.t());
  stack.emplace_back(bias.defined() ? c10::IValue(std::move(bias)) : c10::IValue());
  stack.emplace_back("none");
  stack.emplace_back(c10::List<std::optional<at::Scalar>>());
  stack.emplace_back("");
  linear()->handle.callBoxed(stack);
  count_product();
  return true;
}

bool is_one(const c10::IValue& value) { return value.isScalar() && value.toScalar().equal(1); }

}  // namespace

bool multiply(torch::jit::Stack& stack) {
  const size_t first = stack.size() - 2;
  const at::Tensor a = stack[first].toTensor(), b = stack[first + 1].toTensor();
  return serves(a, b) && run(stack, first, a, b, {});
}

bool multiply_and_add(torch::jit::Stack& stack) {
  const size_t first = stack.size() - 5;
  const at::Tensor bias = stack[first].toTensor(), a = stack[first + 1].toTensor(), b = stack[first + 2].toTensor();
  if (!is_one(stack[first + 3]) || !is_one(stack[first + 4]) || !is_plain_f32(bias, 1) || !bias.is_contiguous() ||
      !serves(a, b) || bias.size(0) != b.size(1))
    return false;
  return run(stack, first, a, b, bias);
}

}  // namespace framejit::torchlib
