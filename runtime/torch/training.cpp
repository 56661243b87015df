#include "runtime/torch/training.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/check.h"
#include "graph/alias.h"
#include "graph/generated/builders.h"
#include "graph/passes/cse.h"
#include "graph/passes/drawn_masks.h"
#include "graph/stepped.h"
#include "runtime/torch/computed_again.h"
#include "runtime/torch/convert.h"
#include "runtime/torch/fused_step.h"
#include "runtime/torch/global_state.h"
#include "runtime/torch/kernel_stats.h"
#include "runtime/torch/saved_readers.h"

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
    tangent.zero = gradient._is_zerotensor();
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
    if (tangent.zero != gradients[i]._is_zerotensor()) return false;
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

// Plans of a block for a part of its gradients: a program may ask for other ones each time.
constexpr size_t kMostPlansOfParts = 16;

}  // namespace

TrainingProgram::TrainingProgram(std::shared_ptr<Recording> recording)
    : recording_(std::move(recording)), history_(cut_into_blocks(*recording_)), parts_(history_.blocks.size()) {
  // It is usually over when the backward runs.
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  record_usual_plans();
  for (size_t block = 0; block < parts_.size(); ++block)
    parts_[block].second_forward = std::make_unique<SecondForward>(*recording_, history_, block);
  collect_saved();
  choose_watched();
  choose_needs();
}

// What the usual plans read.
void TrainingProgram::collect_saved() {
  std::vector<uint32_t> at(recording_->joint->value_count(), kNone);
  for (Part& part : parts_) {
    BackwardPlan& plan = *part.plans.front();
    for (ValueId value : plan.graph.saved) {
      uint32_t& place = at[value.index()];
      if (place == kNone) {
        place = static_cast<uint32_t>(saved_.size());
        saved_.push_back(value);
      }
      plan.saved.push_back(place);
    }
    set_reads(plan);
    origins_.merge(plan.graph.origins);
  }
}

const Recorder::Origin* TrainingProgram::origin_of(size_t i) const {
  const auto found = origins_.find(saved_[i].value);
  return found == origins_.end() ? nullptr : &found->second;
}

void TrainingProgram::find_saved(BackwardPlan& plan) const {
  for (ValueId value : plan.graph.saved) {
    const auto found = std::find(saved_.begin(), saved_.end(), value);
    plan.complete &= found != saved_.end();
    plan.saved.push_back(static_cast<uint32_t>(found - saved_.begin()));
  }
  set_reads(plan);
}

void TrainingProgram::find_roots_among_saved() {
  std::vector<uint32_t> root_of(recording_->joint->value_count(), kNone);
  for (uint32_t root = 0; root < recording_->roots.size(); ++root) root_of[recording_->roots[root].index()] = root;
  saved_roots_.clear();
  for (ValueId value : saved_) saved_roots_.push_back(root_of[value.index()]);
}

// Gradients of results are taken to be laid out as these, those between blocks are as the blocks before make them.
void TrainingProgram::record_usual_plans() {
  std::vector<std::vector<TangentMeta>> tangents(parts_.size());
  for (size_t block = 0; block < parts_.size(); ++block) tangents[block].resize(history_.blocks[block].entries.size());
  for (size_t root = 0; root < history_.roots.size(); ++root) {
    const auto [block, entry] = history_.roots[root];
    tangents[block][entry] = usual_tangent(recording_->root_fakes[root]);
  }
  for (const auto& [output, place] : history_.views)
    for (const ViewOutput& view : recording_->views)
      if (view.output == output) tangents[place.block][place.entry] = usual_tangent(view.fake);
  for (size_t block = parts_.size(); block-- > 0;) {
    const BackwardGraph& backward = record(block, std::move(tangents[block]), {}).graph;
    size_t arrival = 0;
    for (const BlockExit& exit : history_.blocks[block].exits) {
      const bool is_sum = exit.arrivals.size() > 1;
      for (size_t end = arrival + exit.arrivals.size(); arrival < end; ++arrival) {
        const ValueId gradient = backward.gradients[arrival];
        if (exit.to != BlockExit::To::kBlock || !gradient.valid()) continue;
        TangentMeta& tangent = tangents[exit.block][exit.index];
        tangent.defined = true;
        tangent.meta = backward.graph.meta(gradient);
        tangent.meta.storage_offset = 0;
        if (is_sum && !tangent.meta.is_non_overlapping_and_dense())
          tangent.meta.strides = graph::contiguous_strides(tangent.meta.sizes);
      }
    }
  }
}

std::vector<const graph::Graph*> TrainingProgram::backward_graphs() const {
  std::vector<const graph::Graph*> graphs;
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) graphs.push_back(&part->plans.front()->graph.graph);
  return graphs;
}

void TrainingProgram::choose_watched() {
  const graph::Graph& graph = *recording_->joint;
  const graph::AliasClasses aliases(graph);
  auto is_seen = [&](ValueId value) {
    auto shares = [&](const OutputSpec& output) { return aliases.may_alias(output.value, value); };
    return aliases.is_input(value) || std::any_of(recording_->outputs.begin(), recording_->outputs.end(), shares);
  };
  watched_.clear();
  watched_for_.assign(saved_.size(), kNone);
  for (size_t i = 0; i < saved_.size(); ++i) {
    ValueId base = saved_[i];
    for (ValueId next; view_step(graph, base, &next);) base = next;
    const bool is_own = base == saved_[i] && graph.value(base).is_input();  // its variable knows its version
    if (saves_copy(i) || is_own || !is_seen(base)) continue;
    const auto found = std::find(watched_.begin(), watched_.end(), base);
    watched_for_[i] = static_cast<uint32_t>(found - watched_.begin());
    if (found == watched_.end()) watched_.push_back(base);
  }
}

void TrainingProgram::choose_needs() {
  find_roots_among_saved();
  for (Part& part : parts_) {
    part.needs = {};
    std::set<uint32_t> saved, watched;
    const BackwardPlan& plan = *part.plans.front();
    for (size_t i = 0; i < plan.saved.size(); ++i) {
      if (!plan.reads[i]) continue;
      saved.insert(plan.saved[i]);
      if (const uint32_t place = watched_for_[plan.saved[i]]; place != kNone) watched.insert(place);
    }
    part.needs.saved.assign(saved.begin(), saved.end());
    part.needs.watched.assign(watched.begin(), watched.end());
    part.needs.slots.assign(saved_.size(), kNone);
    for (uint32_t slot = 0; slot < part.needs.saved.size(); ++slot) part.needs.slots[part.needs.saved[slot]] = slot;
  }
  choose_kept_inputs();
}

void TrainingProgram::choose_kept_inputs() {
  std::set<uint32_t> kept;
  for (const Part& part : parts_) {
    if (!part.second_forward->is_possible()) continue;
    std::vector<bool> has(recording_->inputs.size());
    for (uint32_t i : part.needs.saved)
      if (saves_input(i) && !saves_copy(i)) has[recording_->joint->value(saved_[i]).index] = true;
    for (uint32_t input = 0; input < has.size(); ++input)
      if (part.second_forward->reads(input) && !has[input]) kept.insert(input);
  }
  kept_inputs_.assign(kept.begin(), kept.end());
}

namespace {

void build(BackwardPlan& plan, const ConstantPool& constants, bool kernels) {
  std::vector<ValueId> keep;
  for (ValueId value : plan.graph.gradients)
    if (value.valid()) keep.push_back(value);
  std::vector<std::shared_ptr<const FusedStep>> fused;
  if (kernels) graph::merge_common_subexpressions(plan.graph.graph, keep);
  if (kernels) fused = fused_steps(plan.graph.graph, keep, {}, false).steps;
  plan.plan = Plan(plan.graph.graph, keep, constants, {}, PlanKind::kBackward, fused, graph::OutsideMemory::kMayOverlap,
                   kernels ? Numbers::kRounded : Numbers::kToTheBit);
}

bool is_never_cheap(const graph::Graph&, const graph::Node&) { return false; }

}  // namespace

void TrainingProgram::draw_masks_as_booleans(graph::Graph& forward) {
  graph::Graph& joint = *recording_->joint;
  if (!has_kernels_for_masks() || forward.value_count() != joint.value_count()) return;
  std::vector<ValueId> seen = recording_->roots;
  for (const OutputSpec& output : recording_->outputs) seen.push_back(output.value);
  for (const FreedRoot& root : recording_->freed_roots) seen.push_back(root.value);
  const std::vector<graph::DrawnMask> masks = graph::drawn_masks(joint, seen, least_computed_again()),
                                      run = graph::drawn_masks(forward, seen, least_computed_again());
  const auto is_same = [](const graph::DrawnMask& a, const graph::DrawnMask& b) { return a.value == b.value; };
  if (!std::equal(masks.begin(), masks.end(), run.begin(), run.end(), is_same)) return;
  graph::draw_as_booleans(joint, masks);
  graph::draw_as_booleans(forward, run);
  count(&KernelStats::masks, run.size());
}

void TrainingProgram::choose_saved(graph::Graph& forward, bool kernels) {
  if (again_ || !(kernels || recording_->joint->has_recompute())) return;
  kernels_ = kernels;
  if (kernels) draw_masks_as_booleans(forward);
  again_.emplace(*recording_->joint, kernels ? &is_cheap_again : &is_never_cheap);
  const std::vector<ValueId> needed = std::move(saved_);
  std::vector<ValueId> seen = recording_->roots;
  for (const OutputSpec& output : recording_->outputs) seen.push_back(output.value);
  if (kernels)
    for (const Part& part : parts_) {
      const BackwardGraph& backward = part.plans.front()->graph;
      const std::vector<bool> exact = graph::inputs_read_by_steps(backward.graph);
      for (size_t i = 0; i < backward.saved.size(); ++i)
        if (exact[i]) seen.push_back(backward.saved[i]);
    }
  saved_ = again_->values_to_keep(needed, seen, least_computed_again());
  for (ValueId value : saved_)
    copied_.push_back(recording_->joint->value(value).is_input() &&
                      std::find(needed.begin(), needed.end(), value) == needed.end());
  choose_watched();
  for (size_t block = 0; block < parts_.size(); ++block) {
    BackwardPlan& plan = *parts_[block].plans.front();
    if (kernels) sum_arrivals(block, plan.graph);
    FJ_CHECK(compute_again(plan), "a cut that leaves the backward without a value");
  }
  choose_needs();
}

// As autograd does: in place where nobody else has the tensor.
void TrainingProgram::sum_arrivals(size_t block, BackwardGraph& backward) const {
  graph::Graph& graph = backward.graph;
  graph::Builder builder(graph);
  std::vector<uint32_t> uses(graph.value_count());
  for (size_t n = 0; n < graph.node_count(); ++n)
    for (const graph::Operand& operand : graph.node(graph::NodeId(n)).args())
      graph::for_each_value(operand, [&](ValueId value) { ++uses[value.index()]; });
  for (ValueId gradient : backward.gradients)
    if (gradient.valid()) ++uses[gradient.index()];
  auto is_own = [&](ValueId value) {
    return value.index() >= uses.size() || (uses[value.index()] == 1 && !graph.value(value).is_input() &&
                                            graph.value(value).result.alias == graph::AliasKind::kFresh &&
                                            graph.meta(value).is_non_overlapping_and_dense());
  };
  std::vector<ValueId> sums;
  size_t arrival = 0;
  for (const BlockExit& exit : history_.blocks[block].exits) {
    ValueId& sum = sums.emplace_back();
    for (size_t end = arrival + exit.arrivals.size(); arrival < end; ++arrival) {
      const ValueId gradient = backward.gradients[arrival];
      if (gradient.valid() && sum.valid()) {
        sum =
            (is_own(sum) ? graph::ops::add_(builder, sum, gradient) : graph::ops::add(builder, sum, gradient)).value();
      } else if (gradient.valid()) {
        sum = gradient;
      }
    }
  }
  backward.gradients = std::move(sums);
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

BackwardPlan& TrainingProgram::record(size_t block, std::vector<TangentMeta> tangents, std::vector<bool> wanted) {
  const HistoryBlock& history = history_.blocks[block];
  torch::autograd::edge_list ends;
  std::vector<bool> is_wanted;  // each arrival
  for (size_t i = 0; i < history.exits.size(); ++i) {
    const auto& arrivals = history.exits[i].arrivals;
    is_wanted.insert(is_wanted.end(), arrivals.size(), wanted.empty() || wanted[i]);
    if (is_wanted.back()) ends.insert(ends.end(), arrivals.begin(), arrivals.end());
  }
  auto plan = std::make_unique<BackwardPlan>();
  plan->autocast = autocast_state();
  plan->graph = record_backward(*recording_, history.entries, tangents, ends);
  std::vector<ValueId> gradients(is_wanted.size());
  for (size_t i = 0, next = 0; i < gradients.size(); ++i)
    if (is_wanted[i]) gradients[i] = plan->graph.gradients[next++];
  plan->graph.gradients = std::move(gradients);
  plan->tangents = std::move(tangents);
  plan->wanted = std::move(wanted);
  std::vector<std::unique_ptr<BackwardPlan>>& plans = parts_[block].plans;
  plans.push_back(std::move(plan));
  return *plans.back();
}

BackwardPlan& TrainingProgram::add_plan(size_t block, std::vector<TangentMeta> tangents, std::vector<bool> wanted) {
  BackwardPlan& plan = record(block, std::move(tangents), std::move(wanted));
  if (kernels_) sum_arrivals(block, plan.graph);
  if (again_) {
    plan.complete = compute_again(plan);
  } else {
    find_saved(plan);
  }
  return plan;
}

BackwardPlan* TrainingProgram::find_plan(size_t block, const std::vector<at::Tensor>& gradients,
                                         const std::vector<bool>& wanted) const {
  const uint64_t autocast = autocast_state();
  for (const auto& plan : parts_[block].plans)
    if (plan->wanted == wanted && plan->autocast == autocast && fits(*plan, gradients)) return plan.get();
  return nullptr;
}

const BackwardPlan& TrainingProgram::plan_for(size_t block, const std::vector<at::Tensor>& gradients,
                                              const std::vector<bool>& wanted) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto& plans = parts_[block].plans;
  auto is_of_part = [](const auto& plan) { return !plan->wanted.empty(); };
  BackwardPlan* found = find_plan(block, gradients, wanted);
  const bool records_part =
      std::count_if(plans.begin(), plans.end(), is_of_part) < static_cast<ptrdiff_t>(kMostPlansOfParts);
  if (!found && !records_part) found = find_plan(block, gradients, {});
  if (!found) {
    c10::AutoGradMode grad_mode(true);
    found = &add_plan(block, tangents_of(gradients), records_part ? wanted : std::vector<bool>());
  }
  for (BackwardPlan* plan : {found, plans.front().get()})
    if (!wanted.empty() && plan->readers.empty()) plan->readers = count_readers(plan->graph);
  if (found->plan.register_count() == 0) build(*found, recording_->recorder.constants(), kernels_);
  return *found;
}

variable_list TrainingProgram::differentiate_again(size_t block, const NodePtr& node,
                                                   const std::vector<at::Tensor>& inputs,
                                                   const variable_list& gradients, const std::vector<bool>& wanted) {
  SecondForward& forward = *parts_[block].second_forward;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    forward.prepare();
  }
  const torch::autograd::edge_list below = edges_to(forward.results_below(), history_, block, *node, kernels_);
  variable_list sums = forward.differentiate(node, below, inputs, gradients, wanted);
  if (kernels_) return sums;
  variable_list results;
  const std::vector<BlockExit>& exits = history_.blocks[block].exits;
  for (size_t i = 0; i < exits.size(); ++i) {
    results.push_back(std::move(sums[i]));
    results.resize(results.size() + exits[i].arrivals.size() - 1);
  }
  return results;
}

}  // namespace framejit::torchlib
