#include "runtime/torch/meta_call.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/Exceptions.h>

#include <optional>
#include <utility>

#include "runtime/torch/convert.h"
#include "runtime/torch/torch_host.h"
#include "runtime/torch/trace_stop.h"
#include "tracer/frame_gate.h"

namespace framejit::torchlib {

using graph::ValueId;

namespace {

thread_local const c10::DeviceType* asked_device = nullptr;

FrameGate* meta_call_gate = nullptr;  // set and read under the GIL

// Scope in which code of the program may run.
class LetKernelThrough {
 public:
  LetKernelThrough() : open_(*meta_call_gate) {}

 private:
  pybind11::gil_scoped_acquire gil_;
  OpenGate open_;
};

class AskedDevice {
 public:
  explicit AskedDevice(c10::DeviceType type) : type_(type), previous_(std::exchange(asked_device, &type_)) {}
  AskedDevice(const AskedDevice&) = delete;
  AskedDevice& operator=(const AskedDevice&) = delete;
  ~AskedDevice() { asked_device = previous_; }

 private:
  c10::DeviceType type_;
  const c10::DeviceType* previous_;
};

}  // namespace

void set_meta_call_gate(FrameGate* gate) { meta_call_gate = gate; }
FrameGate* gate_for_program_code() { return meta_call_gate; }

const char* device_of_meta_call() {
  if (!asked_device) return nullptr;
  return *asked_device == c10::DeviceType::CPU ? "cpu" : *asked_device == c10::DeviceType::CUDA ? "cuda" : nullptr;
}

MetaCall::MetaCall(const OpEntry& op, const torch::jit::Stack& stack, size_t base, bool reals_too)
    : op_(op), arguments_(stack), base_(base), reals_too_(reals_too) {
  c10::impl::ExcludeDispatchKeyGuard no_fake(c10::DispatchKey::Fake);
  at::AutoDispatchBelowADInplaceOrView below;
  stack_.reserve(op.args.size());
  for (size_t i = 0; i < op.args.size(); ++i) {
    if (static_cast<int>(i) == op.device_arg) {
      stack_.emplace_back(c10::Device(c10::kMeta));
    } else {
      stack_.push_back(convert(stack[base + i]));
    }
  }
}

at::Tensor MetaCall::meta_tensor(const at::Tensor& tensor) {
  if (!tensor.defined() || (!fake_impl(tensor) && !reals_too_)) return tensor;
  c10::TensorImpl* fake = tensor.unsafeGetTensorImpl();
  for (const auto& [known, meta] : metas_)
    if (known == fake) return meta;
  at::Tensor meta =
      at::empty_strided(tensor.sizes(), tensor.strides(), at::TensorOptions().dtype(tensor.dtype()).device(c10::kMeta));
  if (tensor.storage_offset() != 0) {
    // A Meta kernel checks that views stay inside of the storage.
    int64_t extent = meta_of(*fake).storage_extent();
    at::Tensor whole = at::empty_strided({extent}, {1}, meta.options());
    meta.unsafeGetTensorImpl()->set_storage_keep_dtype(whole.storage());
    meta.unsafeGetTensorImpl()->set_storage_offset(tensor.storage_offset());
  }
  if (tensor.is_conj()) meta._set_conj(true);
  if (tensor.is_neg()) meta._set_neg(true);
  if (fake->is_wrapped_number()) meta.unsafeGetTensorImpl()->set_wrapped_number(true);
  metas_.emplace_back(fake, meta);
  return meta;
}

// Where an operator takes any number (Recorder::takes_any_number).
static c10::IValue ones(c10::ArrayRef<c10::IValue> numbers) {
  c10::List<c10::Scalar> list;
  for (size_t i = 0; i < numbers.size(); ++i) list.push_back(c10::Scalar(1.0));
  return list;
}

c10::IValue MetaCall::convert(const c10::IValue& value) {
  if (value.isSymFloat()) return c10::Scalar(1.0);
  if (value.isTensor()) return meta_tensor(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& item : value.toTensorVector()) list.push_back(meta_tensor(item));
    return list;
  }
  if (value.isList() && !value.isIntList() && !value.isDoubleList() && !value.isBoolList()) {
    c10::ArrayRef<c10::IValue> items = value.toListRef();
    bool tensors = std::any_of(items.begin(), items.end(), [](const c10::IValue& v) { return v.isTensor(); });
    if (std::any_of(items.begin(), items.end(), [](const c10::IValue& v) { return v.isSymFloat(); }))
      return ones(items);
    if (!tensors) return value;
    c10::List<std::optional<at::Tensor>> list;
    for (const c10::IValue& item : items)
      list.push_back(item.isTensor() ? std::optional<at::Tensor>(meta_tensor(item.toTensor())) : std::nullopt);
    return list;
  }
  return value;
}

void MetaCall::run() {
  c10::impl::ExcludeDispatchKeyGuard no_fake(c10::DispatchKeySet(c10::DispatchKey::Fake) |
                                             c10::autocast_dispatch_keyset);
  at::AutoDispatchBelowADInplaceOrView below;
  AskedDevice asked(result_device().type());
  try {
    std::optional<LetKernelThrough> let_through;
    if (meta_call_gate) let_through.emplace();  // torch's own call what other packages wrote in Python
    op_.handle.callBoxed(stack_);
  } catch (const c10::NotImplementedError& error) {
    stop_trace("OperatorFailed", op_.info->name + " has no Meta kernel");
  } catch (const pybind11::error_already_set& error) {
    if (reals_too_) throw;  // who builds a graph wants to know what is wrong
    // A Meta kernel in Python words its errors differently from the operator itself.
    stop_trace("OperatorFailed", op_.info->name + " does not take these arguments");
  }
}

c10::Device MetaCall::result_device() const {
  c10::Device device(c10::kCPU);
  bool found = false;
  if (op_.device_arg >= 0 && arguments_[base_ + op_.device_arg].isDevice()) {
    device = arguments_[base_ + op_.device_arg].toDevice();
  } else {
    // CPU tensors of rank 0 go with tensors of any device.
    for (const auto& [fake, meta] : metas_) {
      if (!found || (device.is_cpu() && !fake->is_cpu())) device = fake->device();
      found = true;
    }
  }
  if (!device.is_cpu() && !device.has_index() && !device.is_meta())
    device = c10::impl::VirtualGuardImpl(device.type()).getDevice();
  return device;
}

void MetaCall::add_result(const ReturnFact& fact, const at::Tensor& tensor, graph::InferOutput& metas,
                          std::vector<c10::DispatchKeySet>& keys) const {
  graph::ResultMeta& result = metas.add();
  keys.push_back({});
  if (!tensor.defined()) return;
  result.meta = meta_of(*tensor.unsafeGetTensorImpl());
  result.meta.device = to_device(result_device());
  if (fact.alias_arg >= 0) {
    result.alias = fact.is_same ? graph::AliasKind::kSame : graph::AliasKind::kView;
    result.alias_operand = fact.alias_arg;
    const c10::IValue& arg = arguments_[base_ + fact.alias_arg];
    const at::Tensor* source = arg.isTensor() ? &arg.toTensor() : nullptr;
    if (source && source->defined()) result.meta.device = to_device(source->device());
  }
  keys.back() = tensor.key_set() & c10::DispatchKeySet({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative,
                                                        c10::DispatchKey::ZeroTensor});
}

void MetaCall::results(graph::InferOutput& metas, std::vector<c10::DispatchKeySet>& keys) const {
  metas.clear();
  keys.clear();
  for (size_t i = 0; i < op_.returns.size(); ++i) {
    const ReturnFact& fact = op_.returns[i];
    if (fact.is_tensor) {
      add_result(fact, stack_[i].isTensor() ? stack_[i].toTensor() : at::Tensor(), metas, keys);
    } else if (fact.is_tensor_list) {
      for (const at::Tensor& item : stack_[i].toTensorVector()) add_result(fact, item, metas, keys);
    } else {
      graph::ResultMeta& result = metas.add();
      const c10::IValue& value = stack_[i];
      result.kind = value.isBool()     ? graph::ResultKind::kBool
                    : value.isDouble() ? graph::ResultKind::kFloat
                                       : graph::ResultKind::kInt;
      keys.push_back({});
    }
  }
}

void Recorder::record_through_meta(const OpEntry& op, Stack& stack, size_t base) {
  asked_meta_ = true;
  MetaCall call(op, stack, base, takes_real_tensors());
  call.run();
  call.results(results_, result_keys_);
  ValueId first = add_node(op);
  call.for_each_resized([&](c10::TensorImpl* fake, const at::Tensor& meta) {
    if (!fake->key_set().has(c10::DispatchKey::Fake))
      stop_trace("OperatorFailed", op.info->name + " changes the sizes of a real tensor");
    fake->set_sizes_and_strides(meta.sizes(), meta.strides(), meta.storage_offset());
  });
  if (!op.plain_results) return push_results(op, stack, base, first);
  // Sizes that an operator works out for its backward are part of what was captured; anything else it returns is data.
  Stack returned;
  for (size_t i = 0; i < op.returns.size(); ++i) {
    if (op.returns[i].is_tensor_list) stop_trace("OperatorFailed", op.info->name + " returns a list and a number");
    if (op.returns[i].is_tensor) {
      returned.emplace_back(result_tensor(op, stack, base, i, ValueId(first.value + static_cast<uint32_t>(i))));
    } else {
      returned.push_back(call.returned(i));
    }
  }
  torch::jit::drop(stack, op.args.size());
  for (c10::IValue& value : returned) stack.push_back(std::move(value));
}

}  // namespace framejit::torchlib
