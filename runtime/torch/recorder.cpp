#include "runtime/torch/recorder.h"

#include <ATen/SequenceNumber.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "graph/infer/placement.h"
#include "graph/infer/scalar.h"
#include "runtime/torch/convert.h"
#include "runtime/torch/environment.h"
#include "runtime/torch/graph_recorder.h"
#include "runtime/torch/known_value.h"
#include "runtime/torch/memory_overlap.h"
#include "runtime/torch/names.h"
#include "runtime/torch/number_scalar.h"
#include "runtime/torch/recording.h"
#include "runtime/torch/trace_stop.h"

namespace framejit::torchlib {

using graph::AliasKind;
using graph::Operand;
using graph::ResultMeta;
using graph::ValueId;

namespace {

thread_local Recorder* current_recorder = nullptr;
bool meta_only = false;

[[noreturn]] void refuse_without_recorder(const c10::OperatorName& name, const torch::jit::Stack& stack) {
  auto refuse_value = [&](const c10::IValue& argument) {
    FakeImpl* fake = argument.isTensor() ? fake_impl(argument.toTensor()) : nullptr;
    if (fake && fake->keeper()) refuse_outside_guard(name.name, *fake);
  };
  for (const c10::IValue& argument : stack) {
    refuse_value(argument);
    if (!argument.isList()) continue;
    for (const c10::IValue& item : argument.toListRef()) refuse_value(item);
  }
  TORCH_CHECK(false, "framejit: ", name, " was called on a tensor of a capture that is over or runs on another thread");
}

void fallback(const c10::OperatorHandle& handle, c10::DispatchKeySet, torch::jit::Stack* stack) {
  Recorder* recorder = Recorder::current();
  if (!recorder) refuse_without_recorder(handle.operator_name(), *stack);
  try {
    recorder->record(op_entry(handle), *stack);
  } catch (...) {
    recorder->note_failure();
    throw;
  }
}

TORCH_LIBRARY_IMPL(_, Fake, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

const graph::TensorMeta& meta_in_graph(const void* graph, ValueId value) {
  return static_cast<const graph::Graph*>(graph)->meta(value);
}

template <class Slot>
bool has_python_object(const Slot& slot) {
  if constexpr (requires { slot.load_pyobj(); }) {
    return slot.load_pyobj() != nullptr;
  } else {
    return slot._unchecked_untagged_pyobj() != nullptr;
  }
}

}  // namespace

Recorder* Recorder::current() { return current_recorder; }
bool Recorder::set_meta_only(bool on) { return std::exchange(meta_only, on); }

Recorder::Active::Active(Recorder* recorder)
    : previous_(current_recorder), was_included_(c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Fake)) {
  current_recorder = recorder;
  c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, true);
}

Recorder::Active::~Active() {
  c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, was_included_);
  current_recorder = previous_;
}

at::Tensor Recorder::add_input(const at::Tensor& real) {
  graph::TensorMeta meta = meta_of(*real.unsafeGetTensorImpl());
  c10::Storage& storage = input_storages_[real.storage().unsafeGetStorageImpl()];
  if (!storage) storage = fake_storage(real.device());
  c10::DispatchKeySet bits =
      real.key_set() & c10::DispatchKeySet({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});
  meta.requires_grad = real.requires_grad();
  ValueId value = graph_->add_input(meta);
  const InferenceBit as_real(real.is_inference());
  return new_fake(meta, value, storage, bits);
}

at::Tensor Recorder::add_input(const graph::TensorMeta& meta) {
  return new_fake(meta, graph_->add_input(meta), fake_storage(from_device(meta.device)));
}

at::Tensor Recorder::new_fake(const graph::TensorMeta& meta, ValueId value, c10::Storage storage,
                              c10::DispatchKeySet extra) {
  return make_fake(meta, this, value, std::move(storage), extra);
}

at::Tensor Recorder::add_result(ValueId value) {
  const graph::TensorMeta& meta = graph_->meta(value);
  return new_fake(meta, value, fake_storage(from_device(meta.device)));
}

void Recorder::follow(const std::vector<ValueId>& values) {
  std::unordered_map<uint32_t, bool> modes;
  for (const auto& [value, mode] : grad_modes_)
    if (values[value].valid()) modes[values[value].value] = mode;
  grad_modes_ = std::move(modes);
}

bool Recorder::grad_mode_of(ValueId value, bool otherwise) const {
  auto found = grad_modes_.find(value.value);
  return found == grad_modes_.end() ? otherwise : found->second;
}

void Recorder::note_state() {
  graph_->set_new_state(operator_state_now());
  state_changed_ = true;
}

void Recorder::forget_values_from(ValueId first) {
  std::erase_if(constant_values_, [&](const auto& item) { return !(item.second < first); });
  std::erase_if(grad_modes_, [&](const auto& item) { return item.first >= first.value; });
}

at::Tensor Recorder::number_of(const at::Tensor& tensor) {
  FakeImpl* fake = fake_impl(tensor);
  const bool followed = fake && fake->owner() == this && fake->numel() == 1 && !fake->device().is_meta() &&
                        at::isFloatingType(tensor.scalar_type()) && graph_->meta(fake->value()).defined();
  if (!followed || known_value(*graph_, fake->value(), constants_).defined()) return {};
  const Operand operand = Operand::value(fake->value());
  return add_number(graph::NumberOp::kItem, {&operand, 1});
}

at::Tensor Recorder::add_number(graph::NumberOp op, std::span<const Operand> operands) {
  results_.clear();
  results_.add().meta = graph::number_meta();
  const graph::Node& node = graph_->node(graph_->add_node(graph::number_op(op), operands, results_, location_));
  return add_result(node.first_result);
}

// Arguments

ValueId Recorder::constant_value(const at::Tensor& real) {
  auto found = constant_values_.find(real.unsafeGetTensorImpl());
  if (found != constant_values_.end()) return found->second;
  constants_.emplace_back(real);
  ValueId value =
      graph_->add_constant(graph::ConstId(constants_.size() - 1), meta_of(*real.unsafeGetTensorImpl()), location_);
  constant_values_.emplace(real.unsafeGetTensorImpl(), value);
  return value;
}

ValueId Recorder::value_of_element(const OpEntry& op, const at::Tensor& tensor) {
  if (!tensor.defined()) return ValueId();
  FakeImpl* fake = fake_impl(tensor);
  if (has_names(tensor)) stop_trace("UnsupportedTensor", op.info->name + " of a tensor with named dimensions");
  if (!fake || fake->owner() != this) return value_of_other(op, tensor);
  if (origins_) note_origin(fake->value(), tensor);
  return fake->value();
}

// As torch names a tensor that was changed: a view of what was changed has another history by then.
void Recorder::note_origin(ValueId value, const at::Tensor& tensor) {
  const auto& history = tensor.grad_fn();
  if (!history || origins_->count(value.value)) return;
  const auto* view = torch::autograd::impl::get_view_autograd_meta(tensor);
  const bool is_view = view && view->has_bw_view();
  (*origins_)[value.value] = {is_view ? "AsStridedBackward0" : history->name(),
                              is_view ? 0 : static_cast<uint32_t>(tensor.output_nr())};
}

ValueId Recorder::value_of_other(const OpEntry& op, const at::Tensor& tensor) {
  if (fake_impl(tensor)) stop_trace("UnknownTensor", "a tensor of another capture reaches " + op.info->name);
  // LibTorch makes numbers into tensors on the way to an operator: `x[0] = 5.0`.
  if (tensor.dim() == 0 && tensor.is_cpu() && !tensor.requires_grad() &&
      !has_python_object(*tensor.unsafeGetTensorImpl()->pyobj_slot()))
    return constant_value(tensor);
  stop_trace("UnknownTensor", "a tensor that no argument, global or attribute reaches is given to " + op.info->name);
}

Operand Recorder::tensor_operand(const OpEntry& op, const at::Tensor& tensor) {
  if (!tensor.defined()) return Operand::none();
  Operand number;
  if (!tensor.key_set().has(c10::DispatchKey::Fake) && torchlib::number_of(tensor, scratch_, &number)) {
    // LibTorch's argument parser makes a tensor of it, which holds no number.
    if (gives_numbers_ && number.is(Operand::Kind::kFloat) && std::isnan(number.as_float()))
      stop_trace("DataDependentValue", op.info->name + " is given a number in the place of a tensor");
    return number;
  }
  return Operand::value(value_of_element(op, tensor));
}

Operand Recorder::list_operand(const OpEntry& op, const c10::IValue& list) {
  c10::ArrayRef<c10::IValue> items = list.toListRef();
  ValueId* ids = scratch_.allocate<ValueId>(items.size());
  for (size_t i = 0; i < items.size(); ++i)
    ids[i] = items[i].isTensor() ? value_of_element(op, items[i].toTensor()) : ValueId();
  return Operand::values({ids, items.size()});
}

namespace {

// Of others what they give, or how it is laid out, may depend on the number: a power of 1.
bool takes_any_number(const OpEntry& op) {
  const std::string& name = op.info->name;
  if (name.starts_with("aten::_foreach_")) return name.find("pow") == std::string::npos;
  return op.native && op.info->has(graph::kOpPointwise) && !name.starts_with("aten::pow");
}

constexpr double kLargestHalf = 65504;  // of all types of floats the least

bool has_number(const c10::IValue& list) {
  c10::ArrayRef<c10::IValue> items = list.toListRef();
  return std::any_of(items.begin(), items.end(),
                     [](const c10::IValue& item) { return number_of_scalar(item).valid(); });
}

}  // namespace

// Of the first tensor that is given.
graph::DType Recorder::elements() const {
  for (const Operand& before : operands_)
    if (before.is_value() || before.is(Operand::Kind::kValues)) {
      const ValueId first = before.is_value() ? before.as_value() : before.as_values()[0];
      return first.valid() ? graph_->meta(first).dtype : graph::DType::kF64;
    }
  return graph::DType::kF64;
}

ValueId Recorder::fitting_number(const OpEntry& op, ValueId number) {
  if (!takes_any_number(op)) stop_trace("DataDependentValue", op.info->name + " is given a number");
  const auto fit = graph::fit_op(elements());
  if (!fit) return number;
  const Operand operand = Operand::value(number);
  graph::InferOutput result;
  result.add().meta = graph::number_meta();
  return graph_->node(graph_->add_node(graph::number_op(*fit), {&operand, 1}, result, location_)).first_result;
}

// Where a kernel makes an element of a Scalar it raises if that does not fit; Meta kernels do not.
void Recorder::require_fitting(const OpEntry& op, size_t arg, const Operand& number) const {
  if (number.is(Operand::Kind::kFloat) && !(std::abs(number.as_float()) > kLargestHalf)) return;
  const std::vector<graph::SchemaArg>& args = op.info->parsed.args;
  const bool is_scalar = arg < args.size() && (args[arg].type == "Scalar" || args[arg].type == "Scalar?");
  const graph::DType type = elements();
  const bool may_promote = !op.info->writes_arg(0) && (!graph::is_floating(type) || number.is(Operand::Kind::kComplex));
  if (!is_scalar || may_promote || graph::holds(type, number)) return;
  stop_trace("OperatorFailed", op.info->name + " is given a number that elements of its tensor cannot hold");
}

// No node gives a number as it is.
ValueId Recorder::known_number(double number) {
  const Operand factors[] = {Operand::real(number), Operand::real(1)};
  return fake_impl(add_number(graph::NumberOp::kMultiply, factors))->value();
}

// A list of Scalars some of which are numbers of the graph: all of them are, for the node.
Operand Recorder::number_list(const OpEntry& op, const c10::IValue& list) {
  c10::ArrayRef<c10::IValue> items = list.toListRef();
  ValueId* ids = scratch_.allocate<ValueId>(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    ids[i] = number_of_scalar(items[i]);
    if (!ids[i].valid()) {
      if (!items[i].isDouble()) stop_trace("DataDependentValue", op.info->name + " is given numbers of several types");
      ids[i] = known_number(items[i].toDouble());
    }
    ids[i] = fitting_number(op, ids[i]);
  }
  return Operand::values({ids, items.size()});
}

void Recorder::read_operands(const OpEntry& op, const Stack& stack, size_t base) {
  operands_.clear();
  scratch_.reset();
  for (size_t i = 0; i < op.args.size(); ++i) {
    const c10::IValue& value = stack[base + i];
    if (value.isTensor()) {
      operands_.push_back(tensor_operand(op, value.toTensor()));
    } else if (value.isList() && (op.args[i] == ArgKind::kTensorList || op.args[i] == ArgKind::kOptionalTensorList)) {
      operands_.push_back(list_operand(op, value));
    } else if (gives_numbers_ && value.isList() && has_number(value)) {
      operands_.push_back(number_list(op, value));
    } else if (const ValueId number = number_of_scalar(value); number.valid()) {
      operands_.push_back(Operand::value(fitting_number(op, number)));
    } else {
      Operand operand;
      if (!to_operand(value, op.args[i], scratch_, constants_, &operand))
        stop_trace("OperatorFailed", op.info->name + " has an argument of type " + value.tagKind());
      if (value.isDouble() || value.isComplexDouble()) require_fitting(op, i, operand);
      operands_.push_back(operand);
    }
  }
}

// Results

void Recorder::note_failure() {
  if (auto operation = torch::autograd::get_current_node()) failed_sequence_ = operation->sequence_nr();
}

graph::NodeId Recorder::node_of_sequence(uint64_t sequence, size_t node_count) const {
  const auto end = sequences_.begin() + static_cast<std::ptrdiff_t>(std::min(node_count, sequences_.size()));
  const auto found = std::upper_bound(sequences_.begin(), end, sequence);
  return found == end ? graph::NodeId() : graph::NodeId(static_cast<size_t>(found - sequences_.begin()));
}

void Recorder::stop_where_refused(const graph::OpInfo& op) const {
  if (!refuses_next()) return;
  if (!why_refused_.empty()) stop_trace("UnsupportedTensor", why_refused_);
  if (in_function_)
    stop_trace("UnsupportedTensor",
               "a torch.autograd.Function where gradients are recorded: it gives a view, or its "
               "backward fails on fakes");
  stop_trace("GradientNeedsData", op.name);
}

ValueId Recorder::add_node(const OpEntry& op) {
  stop_where_refused(*op.info);
  sequences_.resize(graph_->node_count(), at::sequence_number::peek());
  sequences_.push_back(at::sequence_number::peek());
  const graph::NodeId added = graph_->add_node(op.id, operands_, results_, location_);
  if (operations_) operations_->emplace_back(added, torch::autograd::get_current_node().get());
  const graph::Node& node = graph_->node(added);
  if (c10::GradMode::is_enabled() != ambient_grad_mode_) {
    has_mixed_grad_mode_ = true;
    program_mixes_grad_modes_ = program_mixes_grad_modes_ || !in_function_;
    for (size_t i = 0; op.is_view && i < results_.size(); ++i) grad_modes_[node.result(i).value] = !ambient_grad_mode_;
  }
  return node.first_result;
}

graph::InferStatus Recorder::infer(const OpEntry& op) {
  const graph::InferEnvironment environment = infer_environment();
  result_keys_.clear();
  return graph::infer_meta(op.id, operands_, graph::MetaLookup(graph_, &meta_in_graph), results_, environment);
}

void Recorder::update_in_place(FakeImpl* fake, const graph::TensorMeta& meta, ValueId value) {
  const graph::TensorMeta& known = graph_->meta(fake->value());
  if (known.sizes == meta.sizes && known.strides == meta.strides && known.storage_offset == meta.storage_offset) return;
  fake->set_sizes_and_strides(to_array(meta.sizes), to_array(meta.strides), meta.storage_offset);
  fake->set_value(value);
}

namespace {

const at::Tensor& argument_tensor(const torch::jit::Stack& stack, size_t base, const ResultMeta& result) {
  const c10::IValue& arg = stack[base + static_cast<size_t>(result.alias_operand)];
  if (!arg.isTensor())
    return arg.toListRef()[static_cast<size_t>(std::max<int16_t>(result.alias_element, 0))].toTensor();
  return arg.toTensor();
}

}  // namespace

at::Tensor Recorder::result_tensor(const OpEntry& op, const Stack& stack, size_t base, size_t index, ValueId value) {
  const ResultMeta& result = results_[index];
  if (!result.meta.defined()) return {};
  c10::DispatchKeySet extra = result_keys_.empty() ? c10::DispatchKeySet() : result_keys_[index];
  if (result.alias == AliasKind::kFresh || result.alias_operand < 0) {
    // Views without a base: they take the kind of their argument, whatever the mode is.
    std::optional<InferenceBit> as_argument;
    if (op.unsafe_view) as_argument.emplace(stack[base].toTensor().is_inference());
    return new_fake(result.meta, value, fake_storage(from_device(result.meta.device)), extra);
  }
  const at::Tensor& source = argument_tensor(stack, base, result);
  FakeImpl* fake = fake_impl(source);
  if (result.alias == AliasKind::kSame) {
    if (fake) update_in_place(fake, result.meta, value);
    return source;
  }
  // A view by a rule of graph/ is conjugate or negative where its source is.
  if (fake && result_keys_.empty())
    extra = fake->key_set() & c10::DispatchKeySet({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});
  const InferenceBit as_source(source.is_inference());
  return new_fake(result.meta, value, fake ? fake->storage() : fake_storage(from_device(result.meta.device)), extra);
}

void Recorder::push_results(const OpEntry& op, Stack& stack, size_t base, ValueId first) {
  c10::SmallVector<c10::IValue, 4> returned;
  size_t next = 0;
  auto tensor = [&] {
    at::Tensor result = result_tensor(op, stack, base, next, ValueId(first.value + static_cast<uint32_t>(next)));
    ++next;
    return result;
  };
  for (const ReturnFact& fact : op.returns) {
    if (fact.is_tensor_list) {
      c10::List<at::Tensor> list;
      size_t count = results_.size() - next;  // operators with a list have nothing after it
      for (size_t i = 0; i < count; ++i) list.push_back(tensor());
      returned.emplace_back(std::move(list));
    } else {
      returned.emplace_back(tensor());
    }
  }
  torch::jit::drop(stack, op.args.size());
  for (c10::IValue& value : returned) stack.push_back(std::move(value));
}

// Operators that are not simply recorded

void Recorder::lift(Stack& stack, size_t base) {
  // `torch.tensor(data)` has made real data, which belongs to nobody else: it becomes a constant of the graph. Eager
  // makes it anew at each call; the executor clones where the program could tell.
  at::Tensor real = stack[base].toTensor();
  Operand operand = Operand::value(constant_value(real));
  results_.clear();
  ResultMeta& result = results_.add();
  result.meta = meta_of(*real.unsafeGetTensorImpl());
  static const OpEntry& lift_fresh = op_entry(c10::Dispatcher::singleton().findSchemaOrThrow("aten::lift_fresh", ""));
  stop_where_refused(*lift_fresh.info);
  const graph::Node& node = graph_->node(graph_->add_node(lift_fresh.id, {&operand, 1}, results_, location_));
  stack.pop_back();
  stack.emplace_back(new_fake(result.meta, node.first_result, fake_storage(real.device())));
}

// Whether it lies in pinned memory, where the graph tells: an operator has made it there, or anywhere else.
bool Recorder::is_pinned(const at::Tensor& tensor) const {
  if (!tensor.is_cpu()) return false;
  FakeImpl* fake = fake_impl(tensor);
  ValueId value = fake && fake->owner() == this ? fake->value() : ValueId();
  while (value.valid() && view_step(*graph_, value, &value)) {
  }
  if (!value.valid() || graph_->value(value).is_input())
    stop_trace("TensorData", "whether a tensor of the program is in pinned memory");
  const graph::Node& node = graph_->node(graph_->value(value).definition);
  const graph::OpInfo& info = graph::op_info(node.op);
  if (info.name == "aten::_pin_memory") return true;
  for (size_t i = 0; i < node.operand_count && i < info.parsed.args.size(); ++i)
    if (info.parsed.args[i].name == "pin_memory" && node.arg(i).is(Operand::Kind::kBool)) return node.arg(i).as_bool();
  const bool computed = info.name.starts_with("aten::") && info.name != "aten::_to_copy" &&
                        info.name != "aten::lift_fresh";  // which may be told to, or do it by themselves
  if (!computed) stop_trace("TensorData", "whether the result of " + info.name + " is in pinned memory");
  return false;
}

namespace {

// A fake is strided and holds plain numbers, whatever the operator would give.
void require_plain_kind(const OpEntry& op, const torch::jit::Stack& stack, size_t base) {
  bool special = op.gives_special;
  if (op.layout_arg >= 0) {
    const c10::IValue& layout = stack[base + static_cast<size_t>(op.layout_arg)];
    special |= layout.isInt() && layout.toInt() != static_cast<int64_t>(c10::kStrided);
  }
  if (special) stop_trace("UnsupportedTensor", op.info->name + " gives a tensor of a special kind");
}

}  // namespace

bool Recorder::record_special(const OpEntry& op, Stack& stack, size_t base) {
  const std::string& name = op.info->name;
  require_plain_kind(op, stack, base);
  if (name == "aten::lift_fresh" || name == "aten::lift") {
    if (fake_impl(stack[base].toTensor())) return true;  // the argument is the result
    lift(stack, base);
    return true;
  }
  if (name == "aten::detach" && quiet_) {
    FakeImpl* fake = fake_impl(stack[base].toTensor());
    at::Tensor copy(fake->shallow_copy_and_detach(c10::VariableVersion(0), true));
    static_cast<FakeImpl*>(copy.unsafeGetTensorImpl())->clear_copy_mark();
    stack.back() = std::move(copy);
    return true;
  }
  if (name == "aten::is_pinned") {
    const bool pinned = is_pinned(stack[base].toTensor());
    torch::jit::drop(stack, op.args.size());
    stack.emplace_back(pinned);
    return true;
  }
  if (name == "aten::_pin_memory" && !stack[base].toTensor().is_cpu())
    stop_trace("OperatorFailed", name + " of a tensor that is not on the CPU");
  if (name == "aten::_to_copy" && stack[base].toTensor().is_meta() && stack[base + 3].isDevice() &&
      !stack[base + 3].toDevice().is_meta())
    stop_trace("OperatorFailed", name + " of a meta tensor, which has no data");
  if (name == "aten::is_same_size") {
    bool same = stack[base].toTensor().sizes() == stack[base + 1].toTensor().sizes();
    torch::jit::drop(stack, 2);
    stack.emplace_back(same);
    return true;
  }
  if (name.rfind("aten::as_strided", 0) == 0 && reaches_beyond(stack, base))
    stop_trace("OperatorFailed", name + " beyond what the tensor is known to have");
  if (name == "aten::set_" || name.rfind("aten::set_.", 0) == 0 || name == "aten::set_data" ||
      name == "aten::record_stream" || name == "aten::resize_" || name == "aten::resize_as_")
    stop_trace("OperatorFailed", name + " changes what memory a tensor has");
  return false;
}

void Recorder::decompose(const OpEntry& op, Stack& stack) {
  op.handle.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, stack);
}

// An operator that answers with a number or a truth value, where all tensors that it looks at are the same on each
// call.
bool Recorder::answer_from_known_values(const OpEntry& op, Stack& stack, size_t base) {
  if (state_changed_) return false;
  Stack known(stack.begin() + static_cast<std::ptrdiff_t>(base), stack.end());
  for (c10::IValue& argument : known) {
    if (argument.isTensorList()) return false;
    if (!argument.isTensor()) continue;
    // What a real tensor holds now is not what it holds at each call.
    FakeImpl* fake = fake_impl(argument.toTensor());
    if (!fake || fake->owner() != this) return false;
    argument = known_value(*graph_, fake->value(), constants_);
    if (!argument.toTensor().defined()) return false;
  }
  c10::impl::ExcludeDispatchKeyGuard no_fake(c10::DispatchKey::Fake);
  op.handle.callBoxed(known);
  torch::jit::drop(stack, op.args.size());
  std::move(known.begin(), known.end(), std::back_inserter(stack));
  return true;
}

namespace {

bool has_boolean_index(const torch::jit::Stack& stack, size_t base) {
  for (const c10::IValue& item : stack[base + 1].toListRef()) {
    if (!item.isTensor() || !item.toTensor().defined()) continue;
    c10::ScalarType type = item.toTensor().scalar_type();
    if (type == c10::kBool || type == c10::kByte) return true;
  }
  return false;
}

}  // namespace

// The Meta kernel, which is asked what no rule knows, knows no devices either.
void Recorder::require_placement(const OpEntry& op) {
  const graph::MetaLookup metas(graph_, &meta_in_graph);
  const graph::Placement placement = graph::placement_of(op.info->flags, operands_, metas);
  if (placement == graph::Placement::kMixed)
    stop_trace("OperatorFailed", op.info->name + " is given tensors on " + graph::placement_text(operands_, metas));
  if (placement == graph::Placement::kOther && op.answers)
    stop_trace("OperatorFailed", op.info->name + " asks the device " + graph::placement_text(operands_, metas));
}

namespace {

bool requires_grad(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor().defined() && value.toTensor().requires_grad();
  if (!value.isList()) return false;
  c10::ArrayRef<c10::IValue> items = value.toListRef();
  return std::any_of(items.begin(), items.end(), [](const c10::IValue& item) { return requires_grad(item); });
}

// The kernel counts them when it runs; that they are counted at all tells autograd of what it has saved.
void count_writes(const OpEntry& op, const torch::jit::Stack& stack, size_t base) {
  for (uint16_t arg : op.written_args) {
    const c10::IValue& value = stack[base + arg];
    if (value.isTensor() && value.toTensor().defined()) value.toTensor().unsafeGetTensorImpl()->bump_version();
    if (!value.isTensorList()) continue;
    for (const at::Tensor& tensor : value.toTensorVector()) tensor.unsafeGetTensorImpl()->bump_version();
  }
}

bool has_autograd_kernel(const c10::OperatorHandle& op) {
  for (c10::DispatchKey key :
       {c10::DispatchKey::Autograd, c10::DispatchKey::AutogradCPU, c10::DispatchKey::AutogradCUDA})
    if (op.hasKernelForDispatchKey(key)) return true;
  return false;
}

}  // namespace

// Without a formula for its gradient the kernel runs with autograd on, and what it calls may be differentiated.
void Recorder::require_recordable(const OpEntry& op, const Stack& stack, size_t base) const {
  if (state_changed_) stop_trace("OperatorFailed", op.info->name + " where the state of torch was changed");
  if (const char* why = why_not_custom(op)) stop_trace("OperatorFailed", op.info->name + " " + why);
  const bool differentiated =
      c10::GradMode::is_enabled() &&
      std::any_of(stack.begin() + static_cast<std::ptrdiff_t>(base), stack.end(), requires_grad);
  if (differentiated && !op.composite && !has_autograd_kernel(op.handle))
    stop_trace("OperatorFailed", op.info->name + " has no formula for its gradient");
}

void Recorder::record(const OpEntry& op, Stack& stack) {
  size_t base = stack.size() - op.args.size();
  if (op.special && record_special(op, stack, base)) return;
  if (op.custom) {
    require_recordable(op, stack, base);
    if (op.write_count == WriteCount::kKernel) count_writes(op, stack, base);
  }
  if (op.composite && !op.native) return decompose(op, stack);
  if (op.needs_data && op.plain_results && !takes_real_tensors() && answer_from_known_values(op, stack, base)) return;
  if (op.needs_data) {
    bool index = op.info->name == "aten::index.Tensor";
    if (!index || has_boolean_index(stack, base))
      stop_trace(op.plain_results ? "DataDependentValue" : "DataDependentShape", op.info->name);
  }
  if (op.info->has(graph::kOpMetaInPlace)) {
    FakeImpl* fake = fake_impl(stack[base].toTensor());
    if (fake && fake->is_copy()) stop_trace("OperatorFailed", op.info->name + " of a tensor's data");
  } else if (writes_overlapping(op, stack, base)) {
    stop_trace("OperatorFailed", op.info->name + " writes memory that overlaps");
  }
  read_operands(op, stack, base);
  require_placement(op);
  if (!op.native || op.plain_results || meta_only) return record_through_meta(op, stack, base);
  const graph::InferStatus status = infer(op);
  if (status != graph::InferStatus::kOk) record_through_meta(op, stack, base);  // raises as the operator does
  if (status == graph::InferStatus::kError) stop_trace("OperatorFailed", op.info->name + " refuses its arguments");
  if (status != graph::InferStatus::kOk) return;
  push_results(op, stack, base, add_node(op));
}

}  // namespace framejit::torchlib
