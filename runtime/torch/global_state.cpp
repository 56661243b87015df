#include "runtime/torch/global_state.h"

#include <ATen/Context.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/forward_grad.h>

#include "runtime/torch/device_context.h"
#include "runtime/torch/torch_host.h"

namespace framejit::torchlib {
namespace {

uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
  return hash ^ (hash >> 29);
}

// Switches that choose between kernels where an operator is decomposed, above the recorder.
uint64_t context_word() {
  const at::Context& context = at::globalContext();
  uint64_t word = 0;
  for (bool bit : {context.deterministicAlgorithms(), context.deterministicAlgorithmsWarnOnly(),
                   context.deterministicFillUninitializedMemory(), context.userEnabledFlashSDP(),
                   context.userEnabledMemEfficientSDP(), context.userEnabledMathSDP(), context.userEnabledCuDNN(),
                   context.userEnabledMkldnn(), context.deterministicCuDNN(), context.benchmarkCuDNN()})
    word = word * 2 + bit;
  return word;
}

// It is on for a device where its key is not excluded.
c10::DispatchKeySet autocast_on() {
  return c10::autocast_dispatch_keyset - c10::impl::tls_local_dispatch_key_set().excluded_;
}

uint64_t autocast_types() {
  const auto type_of = [](c10::DeviceType device) {
    return static_cast<uint64_t>(at::autocast::get_autocast_dtype(device));
  };
  return type_of(at::kCPU) | type_of(at::kCUDA) << 8;
}

// What a region that is entered takes, also while none is.
uint64_t autocast_settings() { return autocast_types() | uint64_t{at::autocast::is_autocast_cache_enabled()} << 16; }

// And how many there are around it: when the outermost ends, the cache of casts is emptied.
uint64_t autocast_word() { return autocast_settings() | static_cast<uint64_t>(torchlib::autocast_nesting()) << 17; }

// There is one for all threads.
bool has_forward_level() { return torch::autograd::ForwardADLevel::try_get_by_idx(0) != nullptr; }

}  // namespace

int autocast_nesting() {
  int nesting = at::autocast::increment_nesting() - 1;
  at::autocast::decrement_nesting();
  return nesting;
}

uint64_t autocast_state() {
  c10::DispatchKeySet on = autocast_on();
  return on.empty() ? 0 : mix(on.raw_repr(), autocast_types() << 32);
}

uint64_t global_state() {
  c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  keys.included_ = keys.included_.remove(c10::DispatchKey::Fake);  // ours, while a recording is under way
  const c10::AutogradState& autograd = c10::AutogradState::get_tls_state();
  uint64_t modes = autograd.get_grad_mode() * 1u + autograd.get_inference_mode() * 2u +
                   autograd.get_fw_grad_mode() * 4u + autograd.get_multithreading_enabled() * 8u;
  modes |= static_cast<uint64_t>(at::impl::PythonTorchFunctionTLS::get_disabled_state()) << 4;
  const int64_t mode_count = at::impl::PythonTorchFunctionTLS::stack_len();
  modes |= static_cast<uint64_t>(mode_count & 0xff) << 8;
  modes |= static_cast<uint64_t>(c10::impl::TorchDispatchModeTLS::stack_len() & 0xff) << 16;
  modes |= static_cast<uint64_t>(!at::SavedTensorDefaultHooks::get_tls_state().stack.empty()) << 32;
  modes |= static_cast<uint64_t>(c10::typeMetaToScalarType(c10::get_default_dtype())) << 24;
  modes |= static_cast<uint64_t>(current_cuda_device().value_or(0) & 0xff) << 40;
  const auto& no_hooks = at::SavedTensorDefaultHooks::get_tls_state().disabled_error_message;
  if (no_hooks) modes ^= std::hash<std::string>()(*no_hooks) << 33;
  const uint64_t context = context_word() ^ autocast_word() << 40;
  uint64_t hash = mode_count > 0 ? mix(0, device_contexts_word()) : 0;
  hash = mix(mix(mix(hash, modes), context), keys.included_.raw_repr());
  return mix(hash, keys.excluded_.raw_repr());
}

const char* why_not_under_global_state(bool levels_are_ours) {
  if (c10::impl::TorchDispatchModeTLS::stack_len() > 0) return "a __torch_dispatch__ mode is active";
  if (!has_only_device_contexts()) return "a __torch_function__ mode is active";
  if (at::impl::PythonTorchFunctionTLS::get_disabled_state() != at::impl::TorchFunctionDisabledState::ENABLED)
    return "__torch_function__ is disabled";
  if (!levels_are_ours && c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode))
    return "a functorch transform is active";
  if (c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::Fake)) return "a __torch_dispatch__ handler is running";
  if (!at::SavedTensorDefaultHooks::get_tls_state().stack.empty()) return "hooks for saved tensors are active";
  return nullptr;
}

SavedGlobalState::SavedGlobalState()
    : grad_mode_(c10::GradMode::is_enabled()),
      inference_mode_(c10::InferenceMode::is_enabled()),
      cpu_autocast_dtype_(at::autocast::get_autocast_dtype(at::kCPU)),
      cuda_autocast_dtype_(at::autocast::get_autocast_dtype(at::kCUDA)),
      autocast_cache_(at::autocast::is_autocast_cache_enabled()),
      autocast_nesting_(autocast_nesting()),
      autocast_on_(autocast_on()),
      autocast_settings_(autocast_settings()),
      default_dtype_(c10::get_default_dtype()),
      cuda_device_(current_cuda_device()),
      forward_level_(has_forward_level()) {}

bool SavedGlobalState::has_other_autocast() const {
  return autocast_on() != autocast_on_ || autocast_nesting() != autocast_nesting_ ||
         autocast_settings() != autocast_settings_;
}

void SavedGlobalState::restore() const {
  at::ThreadLocalState::setThreadLocalState(thread_);  // levels of torch.func too
  if (has_forward_level() && !forward_level_) torch::autograd::ForwardADLevel::release_idx(0);
  at::autocast::set_autocast_dtype(at::kCPU, cpu_autocast_dtype_);
  at::autocast::set_autocast_dtype(at::kCUDA, cuda_autocast_dtype_);
  at::autocast::set_autocast_cache_enabled(autocast_cache_);
  // It may hold fakes. Those of the caller's region stay in it, with what the caller has there.
  if (!in_autocast_region() && autocast_nesting() > 0) at::autocast::clear_cache();
  while (autocast_nesting() > autocast_nesting_) at::autocast::decrement_nesting();
  while (autocast_nesting() < autocast_nesting_) at::autocast::increment_nesting();
  if (c10::get_default_dtype() != default_dtype_) c10::set_default_dtype(default_dtype_);
  if (const std::optional<int> now = current_cuda_device(); now && *now != cuda_device_.value_or(0))
    set_current_cuda_device(cuda_device_.value_or(0));
}

}  // namespace framejit::torchlib
