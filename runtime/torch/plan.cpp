#include "runtime/torch/plan.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/clone.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include "base/check.h"
#include "graph/control_flow.h"
#include "graph/number_order.h"
#include "graph/print.h"
#include "runtime/torch/body_plan.h"
#include "runtime/torch/convert.h"
#include "runtime/torch/fused_step.h"
#include "runtime/torch/recording.h"
#include "runtime/torch/undo.h"
#include "runtime/torch/view_step.h"

namespace framejit::torchlib {

using graph::Operand;
using graph::ValueId;

namespace {

thread_local const BelowAutograd* innermost_below = nullptr;

}  // namespace

BelowAutograd::BelowAutograd()
    : before_(c10::impl::tls_local_dispatch_key_set()),
      outer_(std::exchange(innermost_below, this)),
      guard_(c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset) {}

BelowAutograd::~BelowAutograd() { innermost_below = outer_; }

const c10::impl::LocalDispatchKeySet* BelowAutograd::outside() {
  return innermost_below ? &innermost_below->before_ : nullptr;
}

namespace {

bool is_named(const graph::Node& node, std::string_view name) { return graph::op_name(node.op) == name; }

// Whether a tensor made anew can be told from the constant: something writes it, or it leaves the graph.
bool needs_clone(const graph::Graph& graph, ValueId lifted, std::span<const ValueId> keep) {
  std::vector<bool> reached(graph.value_count());
  reached[lifted.index()] = true;
  for (size_t n = 0; n < graph.node_count(); ++n) {
    const graph::Node& node = graph.node(graph::NodeId(n));
    const OpEntry* op = node.erased ? nullptr : op_entry_by_id(node.op);
    if (!op) continue;
    bool touches = false;
    for (size_t i = 0; i < node.operand_count; ++i) {
      bool here = false;
      graph::for_each_value(node.arg(i), [&](ValueId id) { here |= reached[id.index()]; });
      touches |= here;
      if (here && graph::op_info(node.op).writes_arg(i)) return true;
    }
    if (!touches) continue;
    bool aliases = op->is_view || graph::op_info(node.op).has(graph::kOpMaybeView) || !op->written_args.empty();
    for (size_t i = 0; aliases && i < node.result_count; ++i) reached[node.result(i).index()] = true;
  }
  return std::any_of(keep.begin(), keep.end(), [&](ValueId id) { return reached[id.index()]; });
}

}  // namespace

bool Plan::is_left_out(const graph::Node& node) const {
  return is_below_autograd() && !keeps_detached_ && is_named(node, "aten::detach");
}

void Plan::find_canonical(const graph::Graph& graph) {
  keeps_detached_ = !reshaped_values(graph).empty();
  register_count_ = graph.value_count();
  canonical_.resize(register_count_);
  for (size_t i = 0; i < register_count_; ++i) canonical_[i] = static_cast<uint32_t>(i);
  for (size_t n = 0; n < graph.node_count(); ++n) {
    const graph::Node& node = graph.node(graph::NodeId(n));
    if (node.erased) continue;
    if (is_left_out(node)) {
      canonical_[node.result().index()] = canonical_[node.arg(0).as_value().index()];
      continue;
    }
    for (size_t i = 0; i < node.result_count; ++i) {
      const graph::ResultMeta& result = graph.value(node.result(i)).result;
      if (result.alias != graph::AliasKind::kSame || result.alias_operand < 0) continue;
      const Operand& operand = node.arg(static_cast<size_t>(result.alias_operand));
      ValueId source = operand.is_value()
                           ? operand.as_value()
                           : operand.as_values()[static_cast<size_t>(std::max<int16_t>(result.alias_element, 0))];
      canonical_[node.result(i).index()] = canonical_[source.index()];
    }
  }
}

// A view made below autograd has a version counter of its own: a write through it counts for what it is a view of too.
void Plan::add_written(const graph::Graph& graph, ValueId id, Step& step) const {
  std::vector<uint32_t>& written = step.written;
  const auto first = static_cast<std::ptrdiff_t>(written.size());  // a list may name two views of one tensor
  const uint32_t arg = canonical_[id.index()];
  do {
    const uint32_t reg = canonical_[id.index()];
    if (std::find(written.begin() + first, written.end(), reg) != written.end()) continue;
    written.push_back(reg);
    step.written_args.push_back(arg);
  } while (view_step(graph, id, &id));
}

Plan::Step Plan::make_control_flow_step(const graph::Graph& graph, const graph::Node& node,
                                        const ConstantPool& constants) const {
  Step step;
  step.control_flow = std::make_shared<const ControlFlowPlan>(graph, node, constants,
                                                              is_below_autograd() ? PlanKind::kBelowAutograd : kind_);
  for (size_t i = 0; i < node.operand_count; ++i) {
    const Operand& operand = node.arg(i);
    const auto arg = static_cast<uint16_t>(i);
    if (operand.is_value()) step.tensors.push_back({arg, false, canonical_[operand.as_value().index()]});
    if (!operand.is(Operand::Kind::kValues)) continue;
    ListSource& list = step.lists.emplace_back();
    list.arg = arg;
    for (ValueId id : operand.as_values()) list.regs.push_back(canonical_[id.index()]);
  }
  for (size_t i = 0; i < node.result_count; ++i) step.results.push_back(node.result(i).value);
  return step;
}

void Plan::run_control_flow(const Step& step, at::Tensor* registers) {
  std::vector<at::Tensor> tensors;
  std::vector<std::vector<at::Tensor>> lists;
  for (const Source& source : step.tensors) tensors.push_back(registers[source.reg]);
  for (const ListSource& list : step.lists) {
    std::vector<at::Tensor>& items = lists.emplace_back();
    for (int64_t reg : list.regs) items.push_back(registers[reg]);
  }
  std::vector<at::Tensor> results = step.control_flow->run(tensors, lists);
  for (size_t i = 0; i < results.size(); ++i) registers[step.results[i]] = std::move(results[i]);
  for (const Source& source : step.tensors)
    if (source.last_use) registers[source.reg].reset();
  for (uint32_t reg : step.dead) registers[reg].reset();
}

Plan::Step Plan::make_number_step(const graph::Node& node, graph::NumberOp op) const {
  Step step;
  step.number = op;
  for (size_t i = 0; i < node.operand_count; ++i) {
    const Operand& operand = node.arg(i);
    step.arguments.emplace_back(operand.is_value() ? 0.0 : operand.as_float());
    if (operand.is_value())
      step.tensors.push_back(
          {static_cast<uint16_t>(i), false, canonical_[operand.as_value().index()], op != graph::NumberOp::kItem});
  }
  step.results.push_back(node.result().value);
  return step;
}

double Plan::number_of(const Source& source, const at::Tensor* registers, const double* numbers) {
  return source.from_tensor ? *registers[source.reg].const_data_ptr<double>() : numbers[source.reg];
}

// Beside the registers of tensors each number has one of its own: few are ever read as tensors.
void Plan::run_number(const Step& step, at::Tensor* registers, double* numbers) {
  std::array<double, 2> operands{};
  for (size_t i = 0; i < step.arguments.size(); ++i) operands[i] = step.arguments[i].toDouble();
  for (const Source& source : step.tensors)
    operands[source.arg] =
        source.number ? number_of(source, registers, numbers) : registers[source.reg].item().toDouble();
  const std::optional<double> result = graph::compute_number(*step.number, operands[0], operands[1]);
  TORCH_CHECK(result, "framejit: Python raises for these numbers, or gives what is no float");
  numbers[step.results[0]] = *result;
  if (step.as_tensor) registers[step.results[0]] = number_tensor(*result).toTensor();
  for (const Source& source : step.tensors)
    if (source.last_use) registers[source.reg].reset();
  for (uint32_t reg : step.dead) registers[reg].reset();
}

std::span<const graph::NodeId> Plan::step_nodes(size_t step) const {
  const Step& found = steps_[step];
  if (found.fused) return found.fused->nodes();
  return {&found.node, 1};
}

Plan::Step Plan::make_fused_step(const graph::Graph& graph, std::shared_ptr<const FusedStep> fused) const {
  Step step;
  step.fused = std::move(fused);
  step.node = step.fused->nodes().back();
  for (ValueId id : step.fused->inputs())
    step.tensors.push_back({static_cast<uint16_t>(step.tensors.size()), false, canonical_[id.index()]});
  for (ValueId id : step.fused->outputs()) step.results.push_back(canonical_[id.index()]);
  // Each write counts, of what somebody else has.
  auto is_known = [&](uint32_t reg) {
    return std::find(step.results.begin(), step.results.end(), reg) != step.results.end() ||
           std::any_of(step.tensors.begin(), step.tensors.end(), [&](const Source& s) { return s.reg == reg; });
  };
  for (graph::NodeId id : step.fused->nodes()) {
    const ValueId written = codegen::written_in_place(graph, graph.node(id));
    if (written.valid() && is_known(canonical_[written.index()])) add_written(graph, written, step);
  }
  return step;
}

bool Plan::run_views(const Step& step, at::Tensor* registers) {
  const Source& source = step.tensors[0];
  if (!ViewStep::serves(registers[source.reg])) return false;
  const at::Tensor base = source.last_use ? std::move(registers[source.reg]) : registers[source.reg];
  for (size_t i = 0; i < step.results.size(); ++i)
    if (step.results[i] != kNoRegister) registers[step.results[i]] = step.views->make(base, i);
  for (uint32_t reg : step.dead) registers[reg].reset();
  return true;
}

void Plan::run_fused(const Step& step, at::Tensor* registers) {
  c10::SmallVector<at::Tensor, 16> tensors;
  c10::SmallVector<bool, 16> last_use;
  for (const Source& source : step.tensors) {
    last_use.push_back(source.last_use);
    tensors.push_back(source.last_use ? std::move(registers[source.reg]) : registers[source.reg]);
  }
  tensors.resize(step.tensors.size() + step.results.size());
  step.fused->run({tensors.data(), tensors.size()}, {last_use.data(), last_use.size()});
  for (size_t i = 0; i < step.results.size(); ++i)
    registers[step.results[i]] = std::move(tensors[step.tensors.size() + i]);
  bump_versions(step, registers);
  for (uint32_t reg : step.dead) registers[reg].reset();
}

static bool is_real_number(const Operand& operand) {
  return operand.is(Operand::Kind::kInt) || operand.is(Operand::Kind::kFloat) || operand.is(Operand::Kind::kBool);
}

Plan::Step Plan::make_step(const graph::Graph& graph, const graph::Node& node, const ConstantPool& constants) const {
  Step step;
  step.op = op_entry_by_id(node.op);
  FJ_CHECK(step.op, "LibTorch has no operator {}", graph::op_name(node.op));
  if (const OwnKernelRow* own = step.op->own_kernel; own && is_below_autograd() && own->numbers <= numbers_)
    step.own_kernel = own->kernel;
  // Not above autograd, where the graph of gradients shows it.
  const graph::DType numbers = is_below_autograd() ? type_of_numbers(graph, node) : graph::DType::kUndefined;
  step.arguments.reserve(node.operand_count);
  step.results.reserve(node.result_count);
  const graph::OpInfo& info = graph::op_info(node.op);
  const bool bumps_versions = is_below_autograd() && info.has(graph::kOpMutates) &&
                              (step.op->custom || step.op->write_count != WriteCount::kNobody);
  for (size_t i = 0; i < node.operand_count; ++i) {
    const Operand& operand = node.arg(i);
    auto arg = static_cast<uint16_t>(i);
    if (operand.is_value()) {
      const bool number = step.op->args[i] == ArgKind::kOther;
      step.tensors.push_back({arg, false, canonical_[operand.as_value().index()], number});
      step.arguments.emplace_back();
    } else if (operand.is(Operand::Kind::kValues)) {
      ListSource& list = step.lists.emplace_back();
      list.arg = arg;
      list.scalars = step.op->args[i] == ArgKind::kOther;
      list.optional = step.op->args[i] == ArgKind::kOptionalTensorList;
      for (ValueId id : operand.as_values()) list.regs.push_back(id.valid() ? int64_t{canonical_[id.index()]} : -1);
      step.arguments.emplace_back();
    } else if (numbers != graph::DType::kUndefined && step.op->args[i] == ArgKind::kTensor && is_real_number(operand)) {
      step.arguments.push_back(number_in(operand, numbers));
    } else {
      step.arguments.push_back(from_operand(operand, step.op->args[i], constants));
    }
    if (bumps_versions && info.writes_arg(i))
      graph::for_each_value(operand, [&](ValueId id) { add_written(graph, id, step); });
  }
  for (size_t i = 0; i < node.result_count; ++i) {
    uint32_t value = node.result(i).value;
    bool kept = canonical_[value] == value && graph.meta(node.result(i)).defined();
    step.results.push_back(kept ? value : kNoRegister);
  }
  return step;
}

Plan::Plan(const graph::Graph& graph, std::span<const ValueId> keep, const ConstantPool& constants,
           const std::vector<bool>& skip, PlanKind kind, const std::vector<std::shared_ptr<const FusedStep>>& fused,
           graph::OutsideMemory outside, Numbers numbers)
    : kind_(kind), numbers_(numbers) {
  find_canonical(graph);
  steps_.reserve(graph.live_node_count());
  std::vector<const std::shared_ptr<const FusedStep>*> fused_at(fused.empty() ? 0 : graph.node_count());
  for (const auto& step : fused)
    for (graph::NodeId id : step->nodes()) fused_at[id.index()] = &step;
  for (size_t n = 0; n < graph.node_count(); ++n) {
    const graph::Node& node = graph.node(graph::NodeId(n));
    if (node.erased || (!skip.empty() && skip[n])) continue;
    if (is_left_out(node)) continue;
    if (!fused_at.empty() && fused_at[n]) {
      if ((*fused_at[n])->nodes().back().index() == n) steps_.push_back(make_fused_step(graph, *fused_at[n]));
      continue;
    }
    if (is_named(node, "framejit.constant") || is_named(node, "framejit::constant")) {
      Step& step = steps_.emplace_back();
      step.constant = true;
      step.node = graph::NodeId(n);
      step.arguments.push_back(constants.at(node.arg(0).as_const().index()));
      step.results.push_back(node.result().value);
      continue;
    }
    if (const auto number = graph::find_number_op(node.op))
      steps_.push_back(make_number_step(node, *number));
    else if (graph::is_control_flow(node.op))
      steps_.push_back(make_control_flow_step(graph, node, constants));
    else
      steps_.push_back(make_step(graph, node, constants));
    steps_.back().node = graph::NodeId(n);
    if (is_below_autograd() && steps_.back().tensors.size() == 1 && steps_.back().lists.empty())
      steps_.back().views = ViewStep::find(graph, node);
    if (is_named(node, "aten::lift_fresh")) steps_.back().clone = needs_clone(graph, node.result(), keep);
  }
  find_number_tensors(keep);
  if (is_below_autograd()) put_numbers_first(graph, fused, outside);
  find_last_uses(graph, keep);
  add_state_changes(graph);
}

// A plan that runs in parts keeps them in tensors.
void Plan::find_number_tensors(std::span<const ValueId> keep) {
  std::vector<bool> computed(register_count_), as_tensor(register_count_, !is_below_autograd());
  for (const Step& step : steps_)
    if (step.number) computed[step.results[0]] = has_numbers_ = true;
  for (ValueId id : keep) as_tensor[canonical_[id.index()]] = true;
  for (Step& step : steps_) {
    for (Source& source : step.tensors) {
      source.from_tensor = source.number && (!computed[source.reg] || !is_below_autograd());
      if (!source.number) as_tensor[source.reg] = true;
    }
    for (ListSource& list : step.lists) {
      auto is_computed = [&](int64_t reg) { return computed[static_cast<size_t>(reg)]; };
      if (list.scalars) {
        list.from_tensor = !is_below_autograd() || !std::all_of(list.regs.begin(), list.regs.end(), is_computed);
        if (!list.from_tensor) continue;
      }
      for (int64_t reg : list.regs)
        if (reg >= 0) as_tensor[static_cast<size_t>(reg)] = true;
    }
  }
  for (Step& step : steps_)
    if (step.number) step.as_tensor = as_tensor[step.results[0]];
}

void Plan::put_numbers_first(const graph::Graph& graph, const std::vector<std::shared_ptr<const FusedStep>>& fused,
                             graph::OutsideMemory outside) {
  std::vector<bool> bound(graph.node_count());
  for (const auto& step : fused)
    for (graph::NodeId id : step->nodes()) bound[id.index()] = step->nodes().size() > 1;
  const std::vector<bool> first = graph::nodes_of_numbers(graph, bound, outside);
  if (first.empty()) return;
  rests_on_apart_ = outside == graph::OutsideMemory::kLiesApart &&
                    first != graph::nodes_of_numbers(graph, bound, graph::OutsideMemory::kMayOverlap);
  std::stable_partition(steps_.begin(), steps_.end(), [&](const Step& step) { return first[step.node.index()]; });
}

void Plan::add_state_changes(const graph::Graph& graph) {
  graph::NodeState before;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const graph::NodeState& state = graph.node(steps_[i].node).state;
    if (state != before) state_changes_.push_back({i, state});
    before = state;
  }
}

void Plan::find_last_uses(const graph::Graph& graph, std::span<const ValueId> keep) {
  std::vector<bool> needed(register_count_);
  for (ValueId id : keep) needed[canonical_[id.index()]] = true;
  if (kind_ != PlanKind::kBackward)
    for (ValueId id : graph.inputs()) needed[canonical_[id.index()]] = true;  // borrowed: never moved from
  for (size_t s = steps_.size(); s-- > 0;) {
    Step& step = steps_[s];
    for (uint32_t result : step.results)
      if (result != kNoRegister && !needed[result]) step.dead.push_back(result);
    std::vector<uint32_t> ended;
    for (const ListSource& list : step.lists)
      for (int64_t reg : list.regs)
        if (reg >= 0 && !needed[static_cast<size_t>(reg)]) ended.push_back(static_cast<uint32_t>(reg));
    bool reads_twice = !step.written.empty();
    for (size_t i = step.tensors.size(); i-- > 0;) {
      Source& source = step.tensors[i];
      if (needed[source.reg]) continue;
      bool in_list = std::find(ended.begin(), ended.end(), source.reg) != ended.end();
      // The last place that reads it may take it; a step that bumps versions still looks at it afterwards.
      if (!in_list && !reads_twice) {
        source.last_use = true;
      } else {
        ended.push_back(source.reg);
      }
      needed[source.reg] = true;
    }
    for (uint32_t reg : ended) {
      needed[reg] = true;
      if (std::find(step.dead.begin(), step.dead.end(), reg) == step.dead.end()) step.dead.push_back(reg);
    }
  }
}

namespace {

bool has_version(const at::Tensor& tensor) { return tensor.defined() && !tensor.is_inference(); }

void bump_version(const at::Tensor& tensor) {
  if (has_version(tensor)) tensor.unsafeGetTensorImpl()->bump_version();
}

}  // namespace

void Plan::bump_versions(const Step& step, const at::Tensor* registers) {
  for (uint32_t reg : step.written) bump_version(registers[reg]);
}

// As the program calls it: with the dispatch state that its kernels find in eager.
void Plan::call_custom(const Step& step, torch::jit::Stack& stack) {
  TORCH_CHECK(step.op->handle.hasSchema() && step.op->handle.schema().arguments().size() == step.arguments.size(),
              "framejit: ", step.op->info->name, " is no longer registered as it was when a graph was captured");
  const c10::impl::LocalDispatchKeySet* outside = BelowAutograd::outside();
  if (!outside) return step.op->handle.callBoxed(stack);
  c10::impl::ForceDispatchKeyGuard as_outside(*outside);
  step.op->handle.callBoxed(stack);
}

// With the counting of writes on inside the kernel. What it counts for an argument counts for what that is a view of.
void Plan::call_counted(const Step& step, at::Tensor* registers, torch::jit::Stack& stack) {
  std::vector<uint32_t> before;
  before.reserve(step.written.size());
  auto version_of_arg = [&](size_t i) {
    const at::Tensor& arg = registers[step.written_args[i]];
    return has_version(arg) ? static_cast<uint32_t>(arg._version()) : 0;
  };
  for (size_t i = 0; i < step.written.size(); ++i) before.push_back(version_of_arg(i));
  if (step.op->custom) {
    call_custom(step, stack);
  } else {
    c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
    keys.excluded_ = keys.excluded_.remove(c10::DispatchKey::ADInplaceOrView);
    c10::impl::ForceDispatchKeyGuard counting(keys);
    step.op->handle.callBoxed(stack);
  }
  for (size_t i = 0; i < step.written.size(); ++i) {
    if (step.written[i] == step.written_args[i]) continue;
    for (uint32_t n = version_of_arg(i) - before[i]; n > 0; --n) bump_version(registers[step.written[i]]);
  }
}

namespace {

bool is_as_expected(const c10::TensorImpl& found, const graph::TensorMeta& expected) {
  if (found.sizes() != to_array(expected.sizes) || to_device(found.device()) != expected.device ||
      to_dtype(c10::typeMetaToScalarType(found.dtype())) != expected.dtype)
    return false;
  if (found.numel() == 0 || found.layout() != c10::kStrided) return true;
  // Rules are those of the CPU's kernels, to the strides of dimensions of size 1, which others need not have.
  for (size_t d = 0; d < expected.sizes.size(); ++d)
    if ((expected.sizes[d] != 1 || found.is_cpu()) && found.strides()[d] != expected.strides[d]) return false;
  return true;
}

}  // namespace

// What the program did after an operator rests on what was inferred of its result. Those behind the first are left out:
// autograd's own, such as the seeds of attention, which the program does not see.
void Plan::require_as_expected(const Step& step, const at::Tensor* registers, Progress& progress) {
  const graph::Graph& graph = *progress.expected;
  const graph::Node& node = graph.node(step.node);
  const std::string_view name = graph::op_name(node.op);
  const bool custom = !name.starts_with("aten::") && !name.starts_with("mkldnn::");
  const uint32_t result = custom || step.results.empty() ? kNoRegister : step.results[0];
  if (result == kNoRegister || !registers[result].defined()) return;
  const c10::TensorImpl& found = *registers[result].unsafeGetTensorImpl();
  const graph::TensorMeta& expected = graph.meta(node.result(0));
  progress.is_wrong = !is_as_expected(found, expected);
  TORCH_CHECK(!progress.is_wrong, "framejit: ", graph::op_name(node.op), " gave ", graph::to_string(meta_of(found)),
              " where ", graph::to_string(expected), " was inferred");
}

void Plan::run_step(const Step& step, at::Tensor* registers, double* numbers, torch::jit::Stack& stack,
                    Progress* progress) const {
  if (step.constant) {
    registers[step.results[0]] = step.arguments[0].toTensor();
    return;
  }
  if (step.control_flow) return run_control_flow(step, registers);
  if (step.number) return run_number(step, registers, numbers);
  if (step.fused) return run_fused(step, registers);
  // The first run asks LibTorch, so that its answers are compared with what the graph says.
  if (step.views && !(progress && progress->expected) && run_views(step, registers)) return;
  size_t base = stack.size();
  stack.insert(stack.end(), step.arguments.begin(), step.arguments.end());
  for (const Source& source : step.tensors) {
    if (source.number) {
      stack[base + source.arg] = c10::Scalar(number_of(source, registers, numbers));
    } else if (source.last_use) {
      stack[base + source.arg] = std::move(registers[source.reg]);
    } else {
      stack[base + source.arg] = registers[source.reg];
    }
  }
  for (const ListSource& list : step.lists) {
    if (list.scalars) {
      c10::List<c10::Scalar> items;
      items.reserve(list.regs.size());
      for (int64_t reg : list.regs)
        items.push_back(
            number_of({list.arg, false, static_cast<uint32_t>(reg), true, list.from_tensor}, registers, numbers));
      stack[base + list.arg] = std::move(items);
    } else if (list.optional) {
      c10::List<std::optional<at::Tensor>> items;
      items.reserve(list.regs.size());
      for (int64_t reg : list.regs) items.push_back(reg < 0 ? std::nullopt : std::optional<at::Tensor>(registers[reg]));
      stack[base + list.arg] = std::move(items);
    } else {
      c10::List<at::Tensor> items;
      items.reserve(list.regs.size());
      for (int64_t reg : list.regs) items.push_back(reg < 0 ? at::Tensor() : registers[reg]);
      stack[base + list.arg] = std::move(items);
    }
  }
  const bool kernel_counts = !step.written.empty() && (step.op->custom || step.op->write_count == WriteCount::kKernel);
  if (kernel_counts) {
    call_counted(step, registers, stack);
  } else if (step.op->custom) {
    call_custom(step, stack);
  } else if (!step.own_kernel || !step.own_kernel(stack)) {
    step.op->handle.callBoxed(stack);
  }
  size_t next = 0;
  for (size_t i = 0; i < step.op->returns.size(); ++i) {
    c10::IValue& value = stack[base + i];
    if (value.isTensorList()) {
      for (at::Tensor& item : value.toTensorVector()) {
        uint32_t reg = next < step.results.size() ? step.results[next] : kNoRegister;
        ++next;
        if (reg != kNoRegister) registers[reg] = std::move(item);
      }
    } else {
      uint32_t reg = step.results[next++];
      if (reg != kNoRegister && value.isTensor()) registers[reg] = std::move(value).toTensor();
    }
  }
  stack.resize(base);
  if (progress && progress->expected) require_as_expected(step, registers, *progress);
  if (step.clone) registers[step.results[0]] = registers[step.results[0]].clone();
  if (!kernel_counts) bump_versions(step, registers);
  for (uint32_t reg : step.dead) registers[reg].reset();
}

namespace {

// A stack of its own for each run that is under way on this thread: a kernel holds references into the one it was
// called with, and may come back here (custom operators).
class StackLease {
 public:
  StackLease() {
    if (depth == stacks.size()) stacks.emplace_back();
    stack_ = &stacks[depth++];
  }
  ~StackLease() {
    stack_->clear();
    --depth;
  }
  torch::jit::Stack& stack() { return *stack_; }

 private:
  static thread_local std::deque<torch::jit::Stack> stacks;
  static thread_local size_t depth;
  torch::jit::Stack* stack_;
};

thread_local std::deque<torch::jit::Stack> StackLease::stacks;
thread_local size_t StackLease::depth = 0;

}  // namespace

void Plan::run(at::Tensor* registers) const {
  Progress progress;
  run(registers, progress);
}

void Plan::run_nodes(at::Tensor* registers, size_t first_node, size_t end_node, const AfterNode& after) const {
  StackLease lease;
  std::vector<double> numbers(has_numbers_ ? register_count_ : 0);
  for (const Step& step : steps_) {
    if (step.node.index() < first_node || step.node.index() >= end_node) continue;
    run_step(step, registers, numbers.data(), lease.stack(), nullptr);
    if (after) after(step.node);
  }
}

void Plan::run(at::Tensor* registers, Progress& progress) const {
  StackLease lease;
  std::vector<double> numbers(has_numbers_ ? register_count_ : 0);
  std::unique_ptr<OperatorStateScope> state;
  auto change = state_changes_.begin();
  for (size_t i = 0; i < steps_.size(); ++i) {
    progress.step = i;
    if (change != state_changes_.end() && change->step == i) {
      state.reset();
      state = std::make_unique<OperatorStateScope>(change++->state);
    }
    if (progress.undo) progress.undo->before_step(i, registers, *progress.log);
    run_step(steps_[i], registers, numbers.data(), lease.stack(), &progress);
  }
}

}  // namespace framejit::torchlib
