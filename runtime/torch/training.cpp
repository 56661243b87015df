#include "runtime/torch/training.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "graph/alias.h"
#include "graph/expression.h"
#include "runtime/torch/convert.h"
#include "runtime/torch/fused_step.h"

namespace framejit::torchlib {

using graph::ValueId;
using torch::autograd::variable_list;

namespace {

std::vector<TangentMeta> tangents_of(const std::vector<at::Tensor>& gradients) {
  std::vector<TangentMeta> tangents;
  for (const at::Tensor& gradient : gradients) {
    TangentMeta& tangent = tangents.emplace_back();
    tangent.defined = gradient.defined();
    if (!tangent.defined) continue;
    tangent.meta = meta_of(*gradient.unsafeGetTensorImpl());
    tangent.meta.storage_offset = 0;
  }
  return tangents;
}

bool fits(const BackwardPlan& plan, const std::vector<at::Tensor>& gradients) {
  for (size_t i = 0; i < gradients.size(); ++i) {
    const TangentMeta& tangent = plan.tangents[i];
    if (tangent.defined != gradients[i].defined()) return false;
    if (!tangent.defined) continue;
    const c10::TensorImpl& impl = *gradients[i].unsafeGetTensorImpl();
    if (impl.sizes() != to_array(tangent.meta.sizes) || impl.strides() != to_array(tangent.meta.strides) ||
        to_dtype(c10::typeMetaToScalarType(impl.dtype())) != tangent.meta.dtype ||
        to_device(impl.device()) != tangent.meta.device)
      return false;
  }
  return true;
}

void set_reads(BackwardPlan& plan) {
  const graph::Graph& graph = plan.graph.graph;
  std::vector<bool> read = graph::read_values(graph);
  for (ValueId value : plan.graph.gradients)
    if (value.valid()) read[value.index()] = true;
  plan.reads.clear();
  for (size_t i = 0; i < plan.saved.size(); ++i) plan.reads.push_back(read[graph.inputs()[i].index()]);
}

}  // namespace

TrainingProgram::TrainingProgram(std::shared_ptr<Recording> recording)
    : recording_(std::move(recording)), groups_(root_groups(*recording_)) {
  const std::vector<RootCluster>& clusters = groups_.clusters;
  for (const RootCluster& cluster : clusters)
    second_forwards_.push_back(std::make_unique<SecondForward>(*recording_, cluster, clusters.size() == 1));
  // Autocast is usually over when the backward runs.
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  plans_.push_back(std::make_unique<BackwardPlan>());
  plans_[0]->tangents = usual_tangents(*recording_);
  plans_[0]->graph = record_backward(*recording_, plans_[0]->tangents);
  saved_ = plans_[0]->graph.saved;
  for (size_t i = 0; i < saved_.size(); ++i) plans_[0]->saved.push_back(static_cast<uint32_t>(i));
  set_reads(*plans_[0]);
  add_group_plans();
  choose_watched();
  choose_needs();
}

void TrainingProgram::choose_watched() {
  const graph::Graph& graph = *recording_->joint;
  const graph::AliasClasses aliases(graph);
  auto is_seen = [&](ValueId value) {
    auto shares = [&](const OutputSpec& output) { return aliases.may_alias(output.value, value); };
    return aliases.is_input(value) || std::any_of(recording_->outputs.begin(), recording_->outputs.end(), shares);
  };
  watched_.clear();
  watched_for_.assign(saved_.size(), std::numeric_limits<size_t>::max());
  for (size_t i = 0; i < saved_.size(); ++i) {
    ValueId base = saved_[i];
    for (ValueId next; view_step(graph, base, &next);) base = next;
    const bool is_own = base == saved_[i] && graph.value(base).is_input();  // its variable knows its version
    if (saves_copy(i) || is_own || !is_seen(base)) continue;
    const auto found = std::find(watched_.begin(), watched_.end(), base);
    watched_for_[i] = static_cast<size_t>(found - watched_.begin());
    if (found == watched_.end()) watched_.push_back(base);
  }
}

// Behind the first plan, one for each group alone.
void TrainingProgram::add_group_plans() {
  if (groups_.count == 1) return;
  c10::AutoGradMode grad_mode(true);
  for (size_t group = 0; group < groups_.count; ++group) {
    std::vector<TangentMeta> tangents = plans_[0]->tangents;
    for (size_t root = 0; root < tangents.size(); ++root)
      if (groups_.group_of[root] != group) tangents[root] = {};
    add_plan(std::move(tangents));
  }
}

void TrainingProgram::choose_needs() {
  const bool is_one = groups_.count == 1;
  needs_.assign(groups_.count, {std::vector<bool>(saved_.size(), is_one), std::vector<bool>(watched_.size(), is_one)});
  for (size_t group = 0; group < groups_.count && !is_one; ++group) {
    const BackwardPlan& plan = *plans_[1 + group];
    for (size_t i = 0; i < plan.saved.size(); ++i) {
      const uint32_t at = plan.saved[i];
      if (!plan.reads[i] || at >= saved_.size()) continue;
      needs_[group].saved[at] = true;
      if (watched_for_[at] < watched_.size()) needs_[group].watched[watched_for_[at]] = true;
    }
  }
}

namespace {

void build(BackwardPlan& plan, const ConstantPool& constants, bool kernels) {
  std::vector<ValueId> keep;
  for (ValueId value : plan.graph.gradients)
    if (value.valid()) keep.push_back(value);
  std::vector<std::shared_ptr<const FusedStep>> fused;
  if (kernels) fused = fused_steps(plan.graph.graph, keep, {}, false).steps;
  plan.plan = Plan(plan.graph.graph, keep, constants, {}, PlanKind::kBackward, fused);
}

std::atomic<int64_t> small_bytes = 64 * 1024;

// Whether operands that differ in the last bit may make another result altogether. Kernels and LibTorch's operators do
// differ there, so what it compares in the backward must be what the forward had.
bool is_stepped(const graph::Node& node) {
  using Op = graph::ExpressionOp;
  const graph::Expression* expression = graph::expression_of(node.op);
  if (!expression) return false;
  const Op result = expression->result().op;
  if (result >= Op::kEqual && result <= Op::kGreaterEqual) return true;
  return std::any_of(expression->all().begin(), expression->all().end(), [](const graph::ExpressionNode& step) {
    return step.op == Op::kCeil || step.op == Op::kFloor || step.op == Op::kTrunc || step.op == Op::kRound ||
           step.op == Op::kFMod;
  });
}

// Those of the forward that a stepped node of its backward hangs on.
std::vector<ValueId> read_by_steps(const BackwardGraph& backward) {
  const graph::Graph& graph = backward.graph;
  std::vector<bool> wanted(graph.value_count());
  for (size_t n = graph.node_count(); n-- > 0;) {
    const graph::Node& node = graph.node(graph::NodeId(n));
    bool is_wanted = is_stepped(node);
    for (uint32_t i = 0; i < node.result_count; ++i) is_wanted = is_wanted || wanted[node.result(i).index()];
    if (!is_wanted) continue;
    for (size_t i = 0; i < node.operand_count; ++i)
      graph::for_each_value(node.arg(i), [&](ValueId value) { wanted[value.index()] = true; });
  }
  std::vector<ValueId> found;
  for (size_t i = 0; i < backward.saved.size(); ++i)
    if (wanted[graph.inputs()[i].index()]) found.push_back(backward.saved[i]);
  return found;
}

bool is_cheap(const graph::Graph& graph, const graph::Node& node) {
  if (is_stepped(node)) return false;
  if (codegen::fused_kind(graph, node) == codegen::FusedKind::kNone) return false;
  return !graph.meta(node.result()).device.is_cpu() || why_no_kernels().empty();
}

bool is_never_cheap(const graph::Graph&, const graph::Node&) { return false; }

}  // namespace

int64_t TrainingProgram::set_small(int64_t bytes) { return small_bytes.exchange(bytes); }

void TrainingProgram::choose_saved(bool kernels) {
  if (again_ || !(kernels || recording_->joint->has_recompute())) return;
  kernels_ = kernels;
  again_.emplace(*recording_->joint, kernels ? &is_cheap : &is_never_cheap);
  const std::vector<ValueId> needed = std::move(saved_);
  std::vector<ValueId> seen = recording_->roots;
  for (const OutputSpec& output : recording_->outputs) seen.push_back(output.value);
  if (kernels) {
    const std::vector<ValueId> exact = read_by_steps(plans_.front()->graph);
    seen.insert(seen.end(), exact.begin(), exact.end());
  }
  saved_ = again_->values_to_keep(needed, seen, small_bytes);
  for (ValueId value : saved_)
    copied_.push_back(recording_->joint->value(value).is_input() &&
                      std::find(needed.begin(), needed.end(), value) == needed.end());
  choose_watched();
  FJ_CHECK(compute_again(*plans_.front()), "a cut that leaves the backward without a value");
  for (size_t i = 1; i < plans_.size(); ++i) plans_[i]->complete = plans_[i]->complete && compute_again(*plans_[i]);
  choose_needs();
}

// The plan's backward, over what is saved.
bool TrainingProgram::compute_again(BackwardPlan& plan) const {
  BackwardGraph& backward = plan.graph;
  auto made = again_->over(backward.graph, backward.saved, saved_, backward.gradients);
  if (!made) return false;
  backward.graph = std::move(made->graph);
  backward.gradients = std::move(made->values);
  backward.saved = saved_;
  plan.saved.resize(saved_.size());
  std::iota(plan.saved.begin(), plan.saved.end(), 0u);
  set_reads(plan);
  return true;
}

BackwardPlan& TrainingProgram::add_plan(std::vector<TangentMeta> tangents) {
  auto plan = std::make_unique<BackwardPlan>();
  plan->graph = record_backward(*recording_, tangents);
  plan->tangents = std::move(tangents);
  if (again_) {
    plan->complete = compute_again(*plan);
  } else {
    for (ValueId value : plan->graph.saved) {
      auto found = std::find(saved_.begin(), saved_.end(), value);
      plan->complete &= found != saved_.end();
      plan->saved.push_back(static_cast<uint32_t>(found - saved_.begin()));
    }
    set_reads(*plan);
  }
  plans_.push_back(std::move(plan));
  return *plans_.back();
}

const BackwardPlan& TrainingProgram::plan_for(const std::vector<at::Tensor>& gradients) {
  std::lock_guard<std::mutex> lock(mutex_);
  BackwardPlan* found = nullptr;
  for (const auto& plan : plans_)
    if (fits(*plan, gradients)) found = plan.get();
  if (!found) {
    c10::AutoGradMode grad_mode(true);
    found = &add_plan(tangents_of(gradients));
  }
  if (found->plan.register_count() == 0) build(*found, recording_->recorder.constants(), kernels_);
  return *found;
}

variable_list TrainingProgram::differentiate_again(size_t cluster, const std::vector<at::Tensor>& inputs,
                                                   const variable_list& gradients) {
  SecondForward& forward = *second_forwards_[cluster];
  {
    std::lock_guard<std::mutex> lock(mutex_);
    forward.prepare();
  }
  return forward.differentiate(inputs, gradients);
}

}  // namespace framejit::torchlib
