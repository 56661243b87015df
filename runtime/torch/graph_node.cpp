// The autograd node of one call: what it saves, and how it answers.
#include <ATen/SavedTensorHooks.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/graph_task.h>

#include "runtime/torch/node_pointer.h"
#include "runtime/torch/training.h"

namespace framejit::torchlib {

using graph::ValueId;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

namespace {

template <class Self, class Ptr = NodePtr>
Ptr pointer_to(Self* self) {
  if constexpr (std::is_same_v<Ptr, std::shared_ptr<Node>>) {
    return self->getptr();
  } else {
    return Ptr::reclaim_copy(self);
  }
}

class GraphNode final : public Node {
 public:
  GraphNode(std::shared_ptr<TrainingProgram> program, size_t cluster);

  std::string name() const override { return "CapturedGraphBackward"; }

  // Of the backward that has just run.
  void release_variables() override {
    std::lock_guard<std::mutex> lock(state_mutex_);
    release();
  }

  // `registers` after the forward; roots must have their history.
  void save(const Plan& forward, const at::Tensor* inputs, const at::Tensor* registers);

  variable_list apply(variable_list&& gradients) override;

 private:
  enum class Where : uint8_t { kNowhere, kVariable, kPlain };
  struct Slot {
    Where where = Where::kNowhere;
    uint32_t index = 0;
  };
  struct UnsavedInput {
    c10::weak_intrusive_ptr<c10::TensorImpl> impl;
    uint32_t version;
  };
  void save_value(size_t i, const at::Tensor& tensor, bool hooks);
  void release();
  variable_list of_all_roots(variable_list&& gradients) const;
  void find_groups(const variable_list& gradients);
  bool keeps(const BackwardPlan& backward) const;
  template <class F>
  bool any_group(const std::vector<bool>& groups, F&& f) const;
  at::Tensor unpack(uint32_t slot);
  std::vector<at::Tensor> unpack_inputs();
  bool is_plain(const variable_list& gradients) const;
  void require_unchanged() const;

  std::shared_ptr<TrainingProgram> program_;
  const size_t cluster_number_;
  const RootCluster& cluster_;  // of program_
  std::vector<Slot> slots_;     // beside TrainingProgram::saved()
  std::vector<SavedVariable> variables_;
  std::vector<at::Tensor> plain_;
  struct Watched {
    size_t index;  // in TrainingProgram::watched()
    c10::VariableVersion version;
    uint32_t expected;
  };
  std::vector<Watched> watched_;
  // Inputs that the backward does not need. Gradients of gradients do; they are not kept alive for that.
  std::vector<std::pair<uint32_t, UnsavedInput>> unsaved_inputs_;
  std::mutex state_mutex_;
  // Of each group of roots: whether the last backward had a gradient for it, and whether its history is freed, or
  // another node's.
  std::vector<bool> differentiated_, freed_;
};

template <class F>
bool GraphNode::any_group(const std::vector<bool>& groups, F&& f) const {
  for (size_t group = 0; group < groups.size(); ++group)
    if (groups[group] && f(program_->needs_of(group))) return true;
  return false;
}

GraphNode::GraphNode(std::shared_ptr<TrainingProgram> program, size_t cluster)
    : program_(std::move(program)), cluster_number_(cluster), cluster_(program_->groups().clusters[cluster]) {
  const RootGroups& groups = program_->groups();
  freed_.assign(groups.count, true);
  for (uint32_t root : cluster_.roots) freed_[groups.group_of[root]] = false;
  differentiated_.resize(groups.count);
}

variable_list GraphNode::of_all_roots(variable_list&& gradients) const {
  const size_t roots = program_->recording().roots.size();
  if (gradients.size() == roots) return std::move(gradients);
  variable_list all(roots);
  for (size_t i = 0; i < gradients.size(); ++i) all[cluster_.roots[i]] = std::move(gradients[i]);
  return all;
}

void GraphNode::find_groups(const variable_list& gradients) {
  const RootGroups& groups = program_->groups();
  differentiated_.assign(groups.count, false);
  for (size_t root = 0; root < gradients.size(); ++root)
    if (gradients[root].defined()) differentiated_[groups.group_of[root]] = true;
}

// Gradients in another layout may need more than was foreseen for their groups.
bool GraphNode::keeps(const BackwardPlan& backward) const {
  if (!backward.complete) return false;
  for (size_t i = 0; i < backward.saved.size(); ++i)
    if (backward.reads[i] && slots_[backward.saved[i]].where == Where::kNowhere) return false;
  return true;
}

// What none of the other groups needs. Inputs stay as long as any waits: its second derivative begins with all of them.
void GraphNode::release() {
  // The engine says so once more when the backward has let go of it already.
  bool frees_more = false;
  std::vector<bool> waiting(freed_.size());
  for (size_t group = 0; group < freed_.size(); ++group) {
    frees_more = frees_more || (differentiated_[group] && !freed_[group]);
    freed_[group] = freed_[group] || differentiated_[group];
    waiting[group] = !freed_[group];
  }
  if (!frees_more) return;
  const bool any_waits = std::find(waiting.begin(), waiting.end(), true) != waiting.end();
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (any_waits && program_->recording().joint->value(program_->saved()[i]).is_input()) continue;
    if (any_group(waiting, [&](const TrainingProgram::Needs& needs) { return needs.saved[i]; })) continue;
    if (slots_[i].where == Where::kVariable) variables_[slots_[i].index].reset_data();
    if (slots_[i].where == Where::kPlain) plain_[slots_[i].index].reset();
  }
  if (any_waits) return;
  watched_.clear();
  unsaved_inputs_.clear();
}

void GraphNode::save(const Plan& forward, const at::Tensor* inputs, const at::Tensor* registers) {
  const Recording& recording = program_->recording();
  const graph::Graph& graph = *recording.joint;
  const SecondForward& again = program_->second_forward(cluster_number_);
  bool hooks = at::SavedTensorDefaultHooks::is_enabled() &&
               torch::autograd::Engine::get_default_engine().get_default_saved_variable_hooks() != nullptr;
  std::vector<bool> input_saved(recording.inputs.size());
  const std::vector<ValueId>& saved = program_->saved();
  const bool is_whole = program_->groups().clusters.size() == 1;
  std::vector<bool> mine;
  if (!is_whole) {
    mine = freed_;
    mine.flip();
  }
  slots_.resize(saved.size());
  for (size_t i = 0; i < saved.size(); ++i) {
    const graph::Value& value = graph.value(saved[i]);
    const bool begins_again = value.is_input() && !program_->saves_copy(i) && again.reads(value.index);
    if (!is_whole && !begins_again &&
        !any_group(mine, [&](const TrainingProgram::Needs& needs) { return needs.saved[i]; }))
      continue;
    if (begins_again) input_saved[value.index] = true;
    save_value(i, registers[forward.register_of(saved[i])], hooks);
  }
  watched_.reserve(program_->watched().size());
  for (size_t i = 0; i < program_->watched().size(); ++i) {
    if (!is_whole && !any_group(mine, [&](const TrainingProgram::Needs& needs) { return needs.watched[i]; })) continue;
    const ValueId value = program_->watched()[i];
    const bool is_input = graph.value(value).is_input();
    const at::Tensor& tensor = is_input ? inputs[graph.value(value).index] : registers[forward.register_of(value)];
    if (tensor.is_inference()) continue;
    const c10::VariableVersion& version = tensor.unsafeGetTensorImpl()->version_counter();
    watched_.push_back({i, version, version.current_version()});
  }
  for (uint32_t i = 0; i < input_saved.size(); ++i) {
    if (input_saved[i] || !again.reads(i)) continue;
    const at::Tensor& input = inputs[i];
    unsaved_inputs_.emplace_back(i, UnsavedInput{c10::weak_intrusive_ptr<c10::TensorImpl>(input.getIntrusivePtr()),
                                                 input.is_inference() ? 0 : static_cast<uint32_t>(input._version())});
  }
}

void GraphNode::save_value(size_t i, const at::Tensor& tensor, bool hooks) {
  const std::vector<ValueId>& roots = program_->recording().roots;
  auto plain = [&](const at::Tensor& kept) {
    slots_[i] = {Where::kPlain, static_cast<uint32_t>(plain_.size())};
    plain_.push_back(kept);
  };
  if (program_->saves_copy(i)) {
    BelowAutograd below;
    return plain(tensor.clone());
  }
  const ValueId value = program_->saved()[i];
  const auto root = static_cast<uint32_t>(std::find(roots.begin(), roots.end(), value) - roots.begin());
  const bool is_root = root < roots.size();
  if (!program_->recording().joint->value(value).is_input() && !is_root && !hooks) return plain(tensor);
  slots_[i] = {Where::kVariable, static_cast<uint32_t>(variables_.size())};
  const bool is_own = is_root && std::binary_search(cluster_.roots.begin(), cluster_.roots.end(), root);
  // Another node's result without its history, which must not live as long as this.
  variables_.emplace_back(is_root && !is_own ? tensor.detach() : tensor, is_own);
}

at::Tensor GraphNode::unpack(uint32_t slot) {
  const auto [where, index] = slots_[slot];
  if (where == Where::kVariable) return variables_[index].unpack(pointer_to(this));
  TORCH_CHECK(where == Where::kPlain && plain_[index].defined(), torch::autograd::ERR_BACKWARD_TWICE);
  return plain_[index];
}

// As autograd's own saved variables, which share the version of what they are views of.
void GraphNode::require_unchanged() const {
  for (const Watched& watched : watched_) {
    const uint32_t found = watched.version.current_version();
    if (found == watched.expected) continue;
    const bool is_read =
        any_group(differentiated_, [&](const TrainingProgram::Needs& needs) { return needs.watched[watched.index]; });
    TORCH_CHECK(!is_read,
                "one of the variables needed for gradient computation has been modified by an inplace operation: it is "
                "at version ",
                found, "; expected version ", watched.expected, " instead.");
  }
}

std::vector<at::Tensor> GraphNode::unpack_inputs() {
  const Recording& recording = program_->recording();
  const graph::Graph& graph = *recording.joint;
  const SecondForward& again = program_->second_forward(cluster_number_);
  std::vector<at::Tensor> inputs(recording.inputs.size());
  for (uint32_t i = 0; i < program_->saved().size(); ++i) {
    const graph::Value& value = graph.value(program_->saved()[i]);
    if (value.is_input() && !program_->saves_copy(i) && again.reads(value.index)) inputs[value.index] = unpack(i);
  }
  for (auto& [index, unsaved] : unsaved_inputs_) {
    inputs[index] = at::Tensor(unsaved.impl.lock());
    TORCH_CHECK(inputs[index].defined(), "framejit: an input of a captured graph is gone before its second derivative");
    TORCH_CHECK(inputs[index].is_inference() || static_cast<uint32_t>(inputs[index]._version()) == unsaved.version,
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                "an input of a captured graph is at version ",
                inputs[index]._version(), "; expected version ", unsaved.version, " instead.");
  }
  return inputs;
}

bool GraphNode::is_plain(const variable_list& gradients) const {
  constexpr c10::DispatchKeySet unusual({c10::DispatchKey::Python, c10::DispatchKey::FuncTorchBatched,
                                         c10::DispatchKey::FuncTorchGradWrapper, c10::DispatchKey::Functionalize,
                                         c10::DispatchKey::Fake, c10::DispatchKey::Conjugate,
                                         c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor});
  for (const at::Tensor& gradient : gradients)
    if (gradient.defined() && (gradient.key_set().has_any(unusual) || gradient.layout() != c10::kStrided)) return false;
  return true;
}

variable_list GraphNode::apply(variable_list&& of_cluster) {
  std::lock_guard<std::mutex> lock(state_mutex_);
  variable_list gradients = of_all_roots(std::move(of_cluster));
  find_groups(gradients);
  if (std::find(differentiated_.begin(), differentiated_.end(), true) == differentiated_.end())
    return variable_list(cluster_.inputs.size());  // and nothing is used up
  for (size_t group = 0; group < freed_.size(); ++group)
    TORCH_CHECK(!differentiated_[group] || !freed_[group], torch::autograd::ERR_BACKWARD_TWICE);
  if (c10::GradMode::is_enabled() || !is_plain(gradients) || !program_->recording().functions.hold())
    return program_->differentiate_again(cluster_number_, unpack_inputs(), gradients);
  require_unchanged();
  const BackwardPlan& backward = program_->plan_for(gradients);
  if (!keeps(backward)) return program_->differentiate_again(cluster_number_, unpack_inputs(), gradients);
  const graph::Graph& graph = backward.graph.graph;
  std::vector<at::Tensor> registers(backward.plan.register_count());
  size_t input = 0;
  for (size_t i = 0; i < backward.saved.size(); ++i, ++input)
    if (backward.reads[i]) registers[graph.inputs()[input].index()] = unpack(backward.saved[i]);
  // Nobody asks again: what is saved goes as the run uses it up, as eager's nodes go one by one.
  if (!torch::autograd::get_current_graph_task_keep_graph()) release();
  for (uint32_t root : backward.graph.tangents) registers[graph.inputs()[input++].index()] = std::move(gradients[root]);
  {
    BelowAutograd below;
    backward.plan.run(registers.data());
  }
  variable_list results;
  for (uint32_t input : cluster_.inputs) {
    const ValueId value = backward.graph.gradients[input];
    results.push_back(value.valid() ? registers[backward.plan.register_of(value)] : at::Tensor());
  }
  return results;
}

}  // namespace

void attach_history(const std::shared_ptr<TrainingProgram>& program, const Plan& forward, const at::Tensor* inputs,
                    at::Tensor* registers) {
  const Recording& recording = program->recording();
  const std::vector<RootCluster>& clusters = program->groups().clusters;
  for (size_t i = 0; i < clusters.size(); ++i) {
    const RootCluster& cluster = clusters[i];
    auto node = make_node<GraphNode>(program, i);
    for (uint32_t input : cluster.inputs)
      node->add_next_edge(torch::autograd::impl::gradient_edge(inputs[recording.differentiable_inputs[input]]));
    for (uint32_t root : cluster.roots)
      torch::autograd::set_history(registers[forward.register_of(recording.roots[root])], NodePtr(node));
    node->save(forward, inputs, registers);
  }
}

}  // namespace framejit::torchlib
