// The autograd node of one call: what it saves, and how it answers.
#include <ATen/SavedTensorHooks.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <unordered_set>

#include "runtime/torch/call_inputs.h"
#include "runtime/torch/cast_order.h"
#include "runtime/torch/convert.h"
#include "runtime/torch/leaf_relays.h"
#include "runtime/torch/node_pointer.h"
#include "runtime/torch/training.h"

namespace framejit::torchlib {

using graph::ValueId;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using torch::autograd::impl::gradient_edge;

namespace {

// Stands for an operation of eager where torch names it.
class NamedNode final : public Node {
 public:
  explicit NamedNode(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  variable_list apply(variable_list&&) override { return {}; }

 private:
  const std::string name_;
};

// The program's hooks see tensors of its own alone.
class NoSavedTensorHooks {
 public:
  NoSavedTensorHooks() : hooks_(at::SavedTensorDefaultHooks::get_tls_state()) {
    at::SavedTensorDefaultHooks::set_tls_state({});
  }
  ~NoSavedTensorHooks() { at::SavedTensorDefaultHooks::set_tls_state(hooks_); }
  NoSavedTensorHooks(const NoSavedTensorHooks&) = delete;
  NoSavedTensorHooks& operator=(const NoSavedTensorHooks&) = delete;

 private:
  const at::impl::SavedTensorDefaultHooksTLS hooks_;
};

// In torch's words, whatever they are in this release: a saved variable of a tensor like the one that was changed.
[[noreturn]] void raise_changed(const TrainingProgram& program, uint32_t saved, uint32_t version, uint32_t expected) {
  const graph::TensorMeta& meta = program.recording().joint->meta(program.saved()[saved]);
  const NoSavedTensorHooks no_hooks;
  const auto options = at::TensorOptions().dtype(from_dtype(meta.dtype)).device(from_device(meta.device));
  const std::vector<int64_t> strides(meta.sizes.size());
  at::Tensor changed = at::empty_strided(to_array(meta.sizes), strides, options);
  torch::autograd::impl::set_version_counter(changed, c10::VariableVersion(expected));
  if (const Recorder::Origin* origin = program.origin_of(saved)) {
    const auto node = make_node<NamedNode>(origin->operation);
    for (uint32_t i = 0; i < origin->result; ++i) node->add_input_metadata(changed);
    torch::autograd::set_history(changed, NodePtr(node));
  }
  SavedVariable variable(changed, false);
  while (changed._version() < version) torch::autograd::impl::bump_version(changed);
  variable.unpack();
  TORCH_CHECK(false, torch::autograd::ERR_BACKWARD_TWICE);
}

class GraphNode final : public Node {
 public:
  GraphNode(std::shared_ptr<TrainingProgram> program, size_t block) : program_(std::move(program)), block_(block) {}

  std::string name() const override { return program_->history().blocks[block_].operation; }

  // Of the backward that has just run, if it has not released them itself.
  void release_variables() override {
    std::lock_guard<std::mutex> lock(state_mutex_);
    if (!ran_in_part_) release();
  }

  // `registers` after the forward; roots must have their history.
  void save(const Plan& forward, const at::Tensor* inputs, const at::Tensor* registers,
            std::shared_ptr<const CallInputs> all_inputs);

  variable_list apply(variable_list&& gradients) override;

 private:
  enum class Where : uint8_t { kVariable, kPlain };
  struct Slot {
    Where where;
    uint32_t index;
  };
  struct Watched {
    c10::VariableVersion version;
    uint32_t expected;
    bool is_changed() const { return version.enabled() && version.current_version() != expected; }
  };
  const TrainingProgram::Needs& needs() const { return program_->needs_of(block_); }
  void save_value(size_t i, const at::Tensor& tensor, bool hooks);
  void save_versions(const Plan& forward, const at::Tensor* inputs, const at::Tensor* registers);
  void release();
  void release_read_by(const BackwardPlan& part);
  void release_slot(uint32_t slot);
  std::vector<bool> wanted_exits() const;
  bool keeps(const BackwardPlan& backward) const;
  at::Tensor unpack(uint32_t slot);
  std::vector<at::Tensor> unpack_inputs();
  variable_list differentiate_again(const variable_list& gradients, const std::vector<bool>& wanted) {
    return program_->differentiate_again(block_, pointer_to(this), unpack_inputs(), gradients, wanted);
  }
  bool is_plain(const variable_list& gradients) const;
  void require_unchanged(const BackwardPlan& backward);
  bool is_own_result(uint32_t saved) const;

  std::shared_ptr<TrainingProgram> program_;
  const size_t block_;
  std::vector<Slot> slots_;  // beside Needs::saved
  std::vector<SavedVariable> variables_;
  std::vector<at::Tensor> plain_;
  std::vector<Watched> watched_;  // beside Needs::watched
  std::shared_ptr<const CallInputs> all_inputs_;
  std::mutex state_mutex_;
  bool released_ = false;
  bool ran_in_part_ = false;  // the last backward
  // Operations of eager's that a backward of a part has freed.
  std::unordered_set<const Node*> freed_;
  std::vector<uint32_t> readers_left_;  // beside TrainingProgram::saved(), once there are such
};

// Gradients in another layout may need more than was foreseen.
bool GraphNode::keeps(const BackwardPlan& backward) const {
  if (!backward.complete) return false;
  for (size_t i = 0; i < backward.saved.size(); ++i)
    if (backward.reads[i] && needs().slots[backward.saved[i]] == TrainingProgram::kNone) return false;
  return true;
}

// As in eager, where operations that have saved nothing can be gone over again.
void GraphNode::release() {
  if (program_->usual_plan(block_).graph.operations.empty()) return;
  released_ = true;
  for (SavedVariable& variable : variables_) variable.reset_data();
  for (at::Tensor& tensor : plain_) tensor.reset();
  watched_.clear();
  all_inputs_.reset();
}

void GraphNode::release_slot(uint32_t slot) {
  const auto [where, index] = slots_[slot];
  if (where == Where::kVariable) variables_[index].reset_data();
  if (where == Where::kPlain) plain_[index].reset();
}

// What nothing reads that was left out.
void GraphNode::release_read_by(const BackwardPlan& part) {
  freed_.insert(part.graph.operations.begin(), part.graph.operations.end());
  if (readers_left_.empty()) {
    const BackwardPlan& all = program_->usual_plan(block_);
    readers_left_.resize(program_->saved().size());
    for (size_t i = 0; i < all.saved.size(); ++i) readers_left_[all.saved[i]] = all.readers[i];
  }
  for (size_t i = 0; i < part.saved.size(); ++i) {
    if (!part.reads[i]) continue;
    uint32_t& left = readers_left_[part.saved[i]];
    left -= std::min(left, part.readers[i]);
    if (left == 0) release_slot(needs().slots[part.saved[i]]);
  }
}

// Empty: all. Where a program has named what it wants gradients for, the engine goes only there.
std::vector<bool> GraphNode::wanted_exits() const {
  const auto* named = torch::autograd::get_current_graph_task_exec_info();
  if (!named || named->empty()) return {};
  std::vector<bool> wanted;
  bool all = true;
  size_t edge = 0;
  for (const BlockExit& exit : program_->history().blocks[block_].exits) {
    wanted.push_back(task_should_compute_output(edge));
    all = all && wanted.back();
    edge += program_->sums() ? 1 : exit.arrivals.size();
  }
  return all ? std::vector<bool>() : wanted;
}

void GraphNode::save(const Plan& forward, const at::Tensor* inputs, const at::Tensor* registers,
                     std::shared_ptr<const CallInputs> all_inputs) {
  all_inputs_ = std::move(all_inputs);
  bool hooks = at::SavedTensorDefaultHooks::is_enabled() &&
               torch::autograd::Engine::get_default_engine().get_default_saved_variable_hooks() != nullptr;
  const std::vector<ValueId>& saved = program_->saved();
  slots_.reserve(needs().saved.size());
  for (uint32_t i : needs().saved) save_value(i, registers[forward.register_of(saved[i])], hooks);
  save_versions(forward, inputs, registers);
}

void GraphNode::save_versions(const Plan& forward, const at::Tensor* inputs, const at::Tensor* registers) {
  const graph::Graph& graph = *program_->recording().joint;
  watched_.reserve(needs().watched.size());
  for (uint32_t i : needs().watched) {
    const ValueId value = program_->watched()[i];
    const bool is_input = graph.value(value).is_input();
    const at::Tensor& tensor = is_input ? inputs[graph.value(value).index] : registers[forward.register_of(value)];
    if (tensor.is_inference()) {
      watched_.push_back({c10::VariableVersion(c10::VariableVersion::DISABLED), 0});
      continue;
    }
    const c10::VariableVersion& version = tensor.unsafeGetTensorImpl()->version_counter();
    watched_.push_back({version, version.current_version()});
  }
}

void GraphNode::save_value(size_t i, const at::Tensor& tensor, bool hooks) {
  auto plain = [&](const at::Tensor& kept) {
    slots_.push_back({Where::kPlain, static_cast<uint32_t>(plain_.size())});
    plain_.push_back(kept);
  };
  if (program_->saves_copy(i)) {
    BelowAutograd below;
    return plain(tensor.clone());
  }
  const bool is_root = program_->saved_root(i) != TrainingProgram::kNone;
  if (!program_->saves_input(i) && !is_root && !hooks) return plain(tensor);
  slots_.push_back({Where::kVariable, static_cast<uint32_t>(variables_.size())});
  const bool is_own = is_own_result(i);
  // Another node's result without its history, which must not live as long as this.
  variables_.emplace_back(is_root && !is_own ? tensor.detach() : tensor, is_own);
}

bool GraphNode::is_own_result(uint32_t saved) const {
  const uint32_t root = program_->saved_root(saved);
  return root != TrainingProgram::kNone && program_->history().roots[root].block == block_;
}

at::Tensor GraphNode::unpack(uint32_t slot) {
  const auto [where, index] = slots_[slot];
  if (where == Where::kVariable) return variables_[index].unpack(pointer_to(this));
  TORCH_CHECK(where == Where::kPlain && plain_[index].defined(), torch::autograd::ERR_BACKWARD_TWICE);
  return plain_[index];
}

// As autograd's own saved variables, which share the version of what they are views of: the first one that the backward
// reads raises.
void GraphNode::require_unchanged(const BackwardPlan& backward) {
  if (std::none_of(watched_.begin(), watched_.end(), [](const Watched& watched) { return watched.is_changed(); }))
    return;
  for (size_t n = 0; n < backward.saved.size(); ++n) {
    const uint32_t i = backward.saved[n];
    if (!backward.reads[n] || needs().slots[i] == TrainingProgram::kNone) continue;
    if (is_own_result(i)) unpack(needs().slots[i]);  // its variable raises
    const auto place = std::find(needs().watched.begin(), needs().watched.end(), program_->watched_for(i));
    if (place == needs().watched.end()) continue;
    const Watched& watched = watched_[place - needs().watched.begin()];
    if (watched.is_changed()) raise_changed(*program_, i, watched.version.current_version(), watched.expected);
  }
}

std::vector<at::Tensor> GraphNode::unpack_inputs() {
  const Recording& recording = program_->recording();
  const graph::Graph& graph = *recording.joint;
  TORCH_CHECK(!released_, torch::autograd::ERR_BACKWARD_TWICE);
  std::vector<at::Tensor> inputs(recording.inputs.size());
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const uint32_t i = needs().saved[slot];
    if (program_->saves_input(i) && !program_->saves_copy(i))
      inputs[graph.value(program_->saved()[i]).index] = unpack(slot);
  }
  const SecondForward& again = program_->second_forward(block_);
  for (uint32_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].defined() && again.reads(i)) inputs[i] = all_inputs_->at(i);
  return inputs;
}

bool GraphNode::is_plain(const variable_list& gradients) const {
  constexpr c10::DispatchKeySet unusual({c10::DispatchKey::Python, c10::DispatchKey::FuncTorchBatched,
                                         c10::DispatchKey::FuncTorchGradWrapper, c10::DispatchKey::Functionalize,
                                         c10::DispatchKey::Fake, c10::DispatchKey::Conjugate,
                                         c10::DispatchKey::Negative});
  for (const at::Tensor& gradient : gradients)
    if (gradient.defined() && (gradient.key_set().has_any(unusual) || gradient.layout() != c10::kStrided)) return false;
  return true;
}

variable_list GraphNode::apply(variable_list&& gradients) {
  std::lock_guard<std::mutex> lock(state_mutex_);
  ran_in_part_ = false;
  if (std::none_of(gradients.begin(), gradients.end(), [](const at::Tensor& gradient) { return gradient.defined(); }))
    return variable_list(num_outputs());
  const std::vector<bool> wanted = wanted_exits();
  if (c10::GradMode::is_enabled() || !is_plain(gradients) || !program_->recording().functions.hold())
    return differentiate_again(gradients, wanted);
  const BackwardPlan& backward = program_->plan_for(block_, gradients, wanted);
  require_unchanged(backward);
  if (released_ || !freed_.empty())
    for (const Node* operation : backward.graph.operations)
      TORCH_CHECK(!released_ && !freed_.count(operation), torch::autograd::ERR_BACKWARD_TWICE);
  if (!keeps(backward)) return differentiate_again(gradients, wanted);
  const graph::Graph& graph = backward.graph.graph;
  std::vector<at::Tensor> registers(backward.plan.register_count());
  size_t input = 0;
  for (size_t i = 0; i < backward.saved.size(); ++i, ++input)
    if (backward.reads[i]) registers[graph.inputs()[input].index()] = unpack(needs().slots[backward.saved[i]]);
  // Nobody asks again: what is saved goes as the run uses it up, as eager's nodes go one by one.
  ran_in_part_ = !backward.wanted.empty();
  if (!torch::autograd::get_current_graph_task_keep_graph()) {
    if (ran_in_part_) {
      release_read_by(backward);
    } else {
      release();
    }
  }
  for (uint32_t entry : backward.graph.tangents)
    registers[graph.inputs()[input++].index()] = std::move(gradients[entry]);
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

torch::autograd::edge_list attach_history(const std::shared_ptr<TrainingProgram>& program, const Plan& forward,
                                          const at::Tensor* inputs, at::Tensor* registers, const ViewReplay& replay,
                                          ViewReplay::Views& views) {
  const Recording& recording = program->recording();
  const History& history = program->history();
  const CastOrder casts(recording, inputs);
  LeafRelays relays(recording, history, inputs, program->sums());
  std::vector<decltype(make_node<GraphNode>(program, size_t{}))> nodes;
  for (size_t i = 0; i < history.blocks.size(); ++i) {
    const HistoryBlock& block = history.blocks[i];
    relays.make_in_front_of(i, [&](uint32_t output) { replay.make(output, forward, registers, views); });
    auto& node = nodes.emplace_back(make_node<GraphNode>(program, i));
    for (size_t entry = 0; entry < block.entries.size(); ++entry) {
      const torch::autograd::Edge& fake = block.entries[entry];
      if (const uint32_t root = block.results[entry]; root != HistoryBlock::kNoRoot) {
        torch::autograd::set_history(registers[forward.register_of(recording.roots[root])], NodePtr(node));
      } else {
        add_metadata_like(*node, fake.function->input_metadata(fake.input_nr), false);
      }
    }
    for (const BlockExit& exit : block.exits) {
      const size_t count = program->sums() ? 1 : exit.arrivals.size();
      torch::autograd::Edge target(nullptr, exit.index);
      NodePtr in_front;  // of a leaf: passes each gradient on by itself
      if (exit.to == BlockExit::To::kInput) {
        const at::Tensor& input = inputs[recording.differentiable_inputs[exit.index]];
        target = gradient_edge(input);
        in_front = exit.behind != BlockExit::kNoCast ? casts.behind(exit.behind, input, count) : relays.relay_of(exit);
      } else if (exit.to == BlockExit::To::kView) {
        target = gradient_edge(replay.make(exit.index, forward, registers, views));
      } else {
        target.function = nodes[exit.block];
      }
      for (uint32_t n = 0; n < count; ++n) node->add_next_edge(in_front ? torch::autograd::Edge(in_front, n) : target);
    }
  }
  const auto all_inputs = std::make_shared<const CallInputs>(inputs, recording.inputs.size(), program->kept_inputs());
  for (const auto& node : nodes) node->save(forward, inputs, registers, all_inputs);
  torch::autograd::edge_list of_views;
  for (const auto& [output, place] : history.views) of_views.emplace_back(nodes[place.block], place.entry);
  return of_views;
}

}  // namespace framejit::torchlib
