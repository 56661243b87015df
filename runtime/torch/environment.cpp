#include "runtime/torch/environment.h"

#include <ATen/Context.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/zeros.h>

#include "runtime/torch/convert.h"
#include "runtime/torch/plan.h"

namespace framejit::torchlib {

namespace {

// Versions of LibTorch differ, and the Meta kernels of some differ from their own CPU kernels: one is asked, once.
bool is_attention_like_query() {
  static const bool answer = [] {
    BelowAutograd real_kernels;
    c10::impl::ExcludeDispatchKeyGuard no_fake(c10::DispatchKey::Fake);
    at::Tensor query = at::zeros({1, 2, 2, 1}, at::TensorOptions().dtype(c10::kFloat).device(c10::kCPU));
    return std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(query, query, query)).is_contiguous();
  }();
  return answer;
}

}  // namespace

graph::InferEnvironment infer_environment() {
  graph::InferEnvironment environment;
  environment.default_dtype = to_dtype(c10::typeMetaToScalarType(c10::get_default_dtype()));
  environment.deterministic = at::globalContext().deterministicAlgorithms();
  environment.mkl = at::globalContext().hasMKL();
  environment.attention_like_query = is_attention_like_query();
  return environment;
}

}  // namespace framejit::torchlib
