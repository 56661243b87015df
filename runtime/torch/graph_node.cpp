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
  explicit GraphNode(std::shared_ptr<TrainingProgram> program) : program_(std::move(program)) {}

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
  struct Slot {
    bool variable;
    uint32_t index;
  };
  struct UnsavedInput {
    c10::weak_intrusive_ptr<c10::TensorImpl> impl;
    uint32_t version;
  };
  void release();
  void find_groups(const variable_list& gradients);
  template <class F>
  bool any_group(const std::vector<bool>& groups, F&& f) const;
  at::Tensor unpack(uint32_t slot);
  std::vector<at::Tensor> unpack_inputs();
  bool is_plain(const variable_list& gradients) const;
  void require_unchanged() const;

  std::shared_ptr<TrainingProgram> program_;
  std::vector<Slot> slots_;  // beside TrainingProgram::saved()
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
  // Of each group of roots: whether the last backward had a gradient for it, and whether its history is freed.
  std::vector<bool> differentiated_, freed_;
};

template <class F>
bool GraphNode::any_group(const std::vector<bool>& groups, F&& f) const {
  for (size_t group = 0; group < groups.size(); ++group)
    if (groups[group] && f(program_->needs_of(group))) return true;
  return false;
}

void GraphNode::find_groups(const variable_list& gradients) {
  differentiated_.assign(program_->group_count(), false);
  for (size_t root = 0; root < gradients.size(); ++root)
    if (gradients[root].defined()) differentiated_[program_->group_of(root)] = true;
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
    if (slots_[i].variable)
      variables_[slots_[i].index].reset_data();
    else
      plain_[slots_[i].index].reset();
  }
  if (any_waits) return;
  watched_.clear();
  unsaved_inputs_.clear();
}

void GraphNode::save(const Plan& forward, const at::Tensor* inputs, const at::Tensor* registers) {
  const Recording& recording = program_->recording();
  const graph::Graph& graph = *recording.joint;
  bool hooks = at::SavedTensorDefaultHooks::is_enabled() &&
               torch::autograd::Engine::get_default_engine().get_default_saved_variable_hooks() != nullptr;
  std::vector<bool> input_saved(recording.inputs.size());
  const std::vector<ValueId>& saved = program_->saved();
  for (size_t i = 0; i < saved.size(); ++i) {
    const ValueId value = saved[i];
    const at::Tensor& tensor = registers[forward.register_of(value)];
    if (program_->saves_copy(i)) {
      BelowAutograd below;
      slots_.push_back({false, static_cast<uint32_t>(plain_.size())});
      plain_.push_back(tensor.clone());
      continue;
    }
    bool is_root = std::find(recording.roots.begin(), recording.roots.end(), value) != recording.roots.end();
    bool is_input = graph.value(value).is_input();
    if (is_input) input_saved[graph.value(value).index] = true;
    if (is_input || is_root || hooks) {
      slots_.push_back({true, static_cast<uint32_t>(variables_.size())});
      variables_.emplace_back(tensor, is_root);
    } else {
      slots_.push_back({false, static_cast<uint32_t>(plain_.size())});
      plain_.push_back(tensor);
    }
  }
  watched_.reserve(program_->watched().size());
  freed_.resize(program_->group_count());
  differentiated_.resize(program_->group_count());
  for (size_t i = 0; i < program_->watched().size(); ++i) {
    const ValueId value = program_->watched()[i];
    const bool is_input = graph.value(value).is_input();
    const at::Tensor& tensor = is_input ? inputs[graph.value(value).index] : registers[forward.register_of(value)];
    if (tensor.is_inference()) continue;
    const c10::VariableVersion& version = tensor.unsafeGetTensorImpl()->version_counter();
    watched_.push_back({i, version, version.current_version()});
  }
  for (uint32_t i = 0; i < input_saved.size(); ++i) {
    if (input_saved[i]) continue;
    const at::Tensor& input = inputs[i];
    unsaved_inputs_.emplace_back(i, UnsavedInput{c10::weak_intrusive_ptr<c10::TensorImpl>(input.getIntrusivePtr()),
                                                 input.is_inference() ? 0 : static_cast<uint32_t>(input._version())});
  }
}

at::Tensor GraphNode::unpack(uint32_t slot) {
  if (!slots_[slot].variable) {
    const at::Tensor& tensor = plain_[slots_[slot].index];
    TORCH_CHECK(tensor.defined(), torch::autograd::ERR_BACKWARD_TWICE);
    return tensor;
  }
  return variables_[slots_[slot].index].unpack(pointer_to(this));
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
  std::vector<at::Tensor> inputs(recording.inputs.size());
  for (uint32_t i = 0; i < program_->saved().size(); ++i) {
    const graph::Value& value = graph.value(program_->saved()[i]);
    if (value.is_input() && !program_->saves_copy(i)) inputs[value.index] = unpack(i);
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

variable_list GraphNode::apply(variable_list&& gradients) {
  std::lock_guard<std::mutex> lock(state_mutex_);
  find_groups(gradients);
  if (std::find(differentiated_.begin(), differentiated_.end(), true) == differentiated_.end())
    return variable_list(program_->recording().differentiable_inputs.size());  // and nothing is used up
  for (size_t group = 0; group < freed_.size(); ++group)
    TORCH_CHECK(!differentiated_[group] || !freed_[group], torch::autograd::ERR_BACKWARD_TWICE);
  if (c10::GradMode::is_enabled() || !is_plain(gradients) || !program_->recording().functions.hold())
    return program_->recompute(unpack_inputs(), gradients);
  require_unchanged();
  const BackwardPlan& backward = program_->plan_for(gradients);
  if (!backward.complete) return program_->recompute(unpack_inputs(), gradients);
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
  for (ValueId value : backward.graph.gradients)
    results.push_back(value.valid() ? registers[backward.plan.register_of(value)] : at::Tensor());
  return results;
}

}  // namespace

void attach_history(const std::shared_ptr<TrainingProgram>& program, const Plan& forward, const at::Tensor* inputs,
                    at::Tensor* registers) {
  const Recording& recording = program->recording();
  auto node = make_node<GraphNode>(program);
  for (uint32_t i : recording.differentiable_inputs)
    node->add_next_edge(torch::autograd::impl::gradient_edge(inputs[i]));
  for (ValueId root : recording.roots)
    torch::autograd::set_history(registers[forward.register_of(root)], NodePtr(node));
  node->save(forward, inputs, registers);
}

}  // namespace framejit::torchlib
