#include "runtime/torch/environment.h"

#include <ATen/Context.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "runtime/torch/convert.h"
#include "runtime/torch/plan.h"

namespace framejit::torchlib {

namespace {

struct RealKernels {
  BelowAutograd below_autograd;
  c10::impl::ExcludeDispatchKeyGuard no_fake{c10::DispatchKey::Fake};
};

at::TensorOptions on_cpu(c10::ScalarType type) { return at::TensorOptions().dtype(type).device(c10::kCPU); }

// Versions of LibTorch differ, and the Meta kernels of some differ from their own CPU kernels: one is asked, once.
bool is_attention_like_query() {
  static const bool answer = [] {
    RealKernels real_kernels;
    at::Tensor query = at::zeros({1, 2, 2, 1}, on_cpu(c10::kFloat));
    return std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(query, query, query)).is_contiguous();
  }();
  return answer;
}

// Whether the kernel rounds as oneDNN's does, where LibTorch's own gives -1.8e-6.
bool is_gelu_backward_onednns(c10::ScalarType type) {
  RealKernels real_kernels;
  at::Tensor gradient = at::full({32}, 1024, on_cpu(type));
  return at::gelu_backward(gradient, at::full({32}, -6.5, on_cpu(type)))[0].item<float>() == 0;
}

bool is_gelu_of_infinity_nan(c10::ScalarType type) {
  RealKernels real_kernels;
  return std::isnan(at::gelu(at::full({32}, INFINITY, on_cpu(type)))[0].item<float>());
}

// By type, asked once: of f32, bf16 and f16.
class AnswerOfTypes {
 public:
  explicit AnswerOfTypes(bool (*ask)(c10::ScalarType))
      : of_f32_(ask(c10::kFloat)), of_bf16_(ask(c10::kBFloat16)), of_f16_(ask(c10::kHalf)) {}
  bool of(graph::DType dtype) const {
    if (dtype == graph::DType::kF32) return of_f32_;
    if (dtype == graph::DType::kBF16) return of_bf16_;
    return dtype == graph::DType::kF16 && of_f16_;
  }

 private:
  const bool of_f32_, of_bf16_, of_f16_;
};

}  // namespace

// Which types oneDNN takes, and how, is a matter of the release of LibTorch, of its build and of the processor.
bool has_onednn_kernel(graph::DType dtype) {
  static const AnswerOfTypes answer(&is_gelu_backward_onednns);
  return answer.of(dtype);
}

bool gelu_loses_infinity(graph::DType dtype) {
  static const AnswerOfTypes answer(&is_gelu_of_infinity_nan);
  return answer.of(dtype);
}

graph::InferEnvironment infer_environment() {
  graph::InferEnvironment environment;
  environment.default_dtype = to_dtype(c10::typeMetaToScalarType(c10::get_default_dtype()));
  environment.deterministic = at::globalContext().deterministicAlgorithms();
  environment.mkl = at::globalContext().hasMKL();
  environment.attention_like_query = is_attention_like_query();
  return environment;
}

}  // namespace framejit::torchlib
