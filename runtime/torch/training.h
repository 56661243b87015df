// A captured graph as nodes of autograd's graph, one for each block of its history.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "graph/passes/rematerialize.h"
#include "runtime/torch/history_blocks.h"
#include "runtime/torch/plan.h"
#include "runtime/torch/recording.h"
#include "runtime/torch/second_forward.h"
#include "runtime/torch/view_replay.h"

namespace framejit::torchlib {

// A block's backward, specialised to which gradients arrive, how they are laid out, what is asked for and how autocast
// is set: autograd's formulas call operators that it casts for.
struct BackwardPlan {
  uint64_t autocast = 0;              // autocast_state()
  std::vector<TangentMeta> tangents;  // beside the block's entries
  std::vector<bool> wanted;           // beside the block's exits; empty: all
  // `gradients`: for each of the block's exits, its arrivals; their sum alone where kernels compute it.
  BackwardGraph graph;
  Plan plan;
  std::vector<uint32_t> saved;  // where each of its saved values is among TrainingProgram::saved()
  std::vector<bool> reads;      // beside `saved`
  // Beside `saved`: how many operators read it, or what is computed from it before any gradient.
  std::vector<uint32_t> readers;
  bool complete = true;  // false: it needs a value that is not saved
};

// What all calls of one graph share.
class TrainingProgram {
 public:
  explicit TrainingProgram(std::shared_ptr<Recording> recording);

  // Values of the forward graph that its backward needs.
  const std::vector<graph::ValueId>& saved() const { return saved_; }
  const Recording& recording() const { return *recording_; }
  const History& history() const { return history_; }
  // In the order in which they run.
  std::vector<const graph::Graph*> backward_graphs() const;
  // Whether saved()[i] is an input that may change before the backward runs: a copy is saved.
  bool saves_copy(size_t i) const { return !copied_.empty() && copied_[i]; }
  bool saves_input(size_t i) const { return recording_->joint->value(saved_[i]).is_input(); }
  // Null: of no operation of eager's.
  const Recorder::Origin* origin_of(size_t i) const;
  // In Recording::roots, or kNone.
  uint32_t saved_root(size_t i) const { return saved_roots_[i]; }
  // Inputs, and tensors that the program gets to see, over whose memory some of saved() lies as a view or after a write
  // in place: whoever writes there changes what is saved.
  const std::vector<graph::ValueId>& watched() const { return watched_; }
  // What the backward of a block reads of saved(), and what of watched() is for that; indices, in order.
  struct Needs {
    std::vector<uint32_t> saved, watched;
    std::vector<uint32_t> slots;  // beside saved(): where it is in `saved`, or kNone
  };
  static constexpr uint32_t kNone = 0xffffffffu;
  // Inputs of the graph that a second derivative of a block begins with and that the block has not saved.
  const std::vector<uint32_t>& kept_inputs() const { return kept_inputs_; }
  // Where the one that is there for saved()[i] is in watched(); kNone: there is none.
  uint32_t watched_for(size_t i) const { return watched_for_[i]; }
  const Needs& needs_of(size_t block) const { return parts_[block].needs; }
  // Whether an exit gets one gradient, the sum of all that arrive there, rather than each.
  bool sums() const { return kernels_; }
  // What of the forward is computed again rather than saved, after which saved() has changed: what checkpointed
  // functions did, and with `kernels`, in which backwards then run elementwise operators, what these do. Before the
  // first run. `forward`: the graph that will run; masks of dropout become booleans in it.
  void choose_saved(graph::Graph& forward, bool kernels);
  // Records it if there is none yet. Thread-safe. `wanted`: see BackwardPlan; it may give more.
  const BackwardPlan& plan_for(size_t block, const std::vector<at::Tensor>& gradients, const std::vector<bool>& wanted);
  // For all that an ordinary backward asks for.
  const BackwardPlan& usual_plan(size_t block) const { return *parts_[block].plans.front(); }

  // What a second derivative of a block begins with.
  const SecondForward& second_forward(size_t block) const { return *parts_[block].second_forward; }
  // See SecondForward::differentiate(): with what its exits get, as the block's plans give it. `node`: the block's.
  // Thread-safe.
  torch::autograd::variable_list differentiate_again(size_t block, const NodePtr& node,
                                                     const std::vector<at::Tensor>& inputs,
                                                     const torch::autograd::variable_list& gradients,
                                                     const std::vector<bool>& wanted);

 private:
  struct Part {  // what there is for a block
    std::vector<std::unique_ptr<BackwardPlan>> plans;
    Needs needs;
    std::unique_ptr<SecondForward> second_forward;
  };
  void record_usual_plans();
  BackwardPlan& record(size_t block, std::vector<TangentMeta> tangents, std::vector<bool> wanted);
  BackwardPlan& add_plan(size_t block, std::vector<TangentMeta> tangents, std::vector<bool> wanted);
  BackwardPlan* find_plan(size_t block, const std::vector<at::Tensor>& gradients,
                          const std::vector<bool>& wanted) const;
  void find_saved(BackwardPlan& plan) const;
  void choose_watched();
  void collect_saved();
  void draw_masks_as_booleans(graph::Graph& forward);
  void find_roots_among_saved();
  void choose_needs();
  void choose_kept_inputs();
  void sum_arrivals(size_t block, BackwardGraph& backward) const;
  bool compute_again(BackwardPlan& plan) const;

  std::shared_ptr<Recording> recording_;
  std::vector<graph::ValueId> saved_;
  std::vector<graph::ValueId> watched_;
  std::vector<uint32_t> watched_for_;  // beside saved_
  std::vector<uint32_t> saved_roots_;  // beside saved_
  Recorder::Origins origins_;
  std::vector<uint32_t> kept_inputs_;
  History history_;
  std::vector<Part> parts_;                        // beside history_.blocks
  std::vector<bool> copied_;                       // beside saved_, may be empty
  std::optional<graph::Rematerialization> again_;  // of the forward, where some of it is computed again
  bool kernels_ = false;
  std::mutex mutex_;
};

// Makes the nodes of one call, one for each block, and gives the roots their history. `inputs`: all inputs of the
// graph. `registers`: after the forward ran. `views`: gets those of inputs that roots have in their history. Returns
// what views of roots have for their history, beside History::views.
torch::autograd::edge_list attach_history(const std::shared_ptr<TrainingProgram>& program, const Plan& forward,
                                          const at::Tensor* inputs, at::Tensor* registers, const ViewReplay& replay,
                                          ViewReplay::Views& views);

}  // namespace framejit::torchlib
