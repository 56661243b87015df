// A captured graph as a node of autograd's graph, or several that have no input in common.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "graph/passes/rematerialize.h"
#include "runtime/torch/plan.h"
#include "runtime/torch/recording.h"
#include "runtime/torch/root_groups.h"
#include "runtime/torch/second_forward.h"

namespace framejit::torchlib {

// The backward, specialised to which gradients arrive and how they are laid out.
struct BackwardPlan {
  std::vector<TangentMeta> tangents;
  BackwardGraph graph;
  Plan plan;
  std::vector<uint32_t> saved;  // where each of its saved values is among TrainingProgram::saved()
  std::vector<bool> reads;      // beside `saved`
  bool complete = true;         // false: it needs a value that is not saved
};

// What all calls of one graph share.
class TrainingProgram {
 public:
  explicit TrainingProgram(std::shared_ptr<Recording> recording);

  // Values of the forward graph that its backward needs.
  const std::vector<graph::ValueId>& saved() const { return saved_; }
  const Recording& recording() const { return *recording_; }
  const graph::Graph& first_graph() const { return plans_.front()->graph.graph; }
  // Whether saved()[i] is an input that may change before the backward runs: a copy is saved.
  bool saves_copy(size_t i) const { return !copied_.empty() && copied_[i]; }
  // Inputs, and tensors that the program gets to see, over whose memory some of saved() lies as a view or after a write
  // in place: whoever writes there changes what is saved.
  const std::vector<graph::ValueId>& watched() const { return watched_; }
  // See root_groups.h.
  const RootGroups& groups() const { return groups_; }
  // Whether the backward of a group reads saved()[i], or watched()[i] is for one that it reads.
  struct Needs {
    std::vector<bool> saved, watched;
  };
  const Needs& needs_of(size_t group) const { return needs_[group]; }
  // What of the forward is computed again rather than saved, after which saved() has changed: what checkpointed
  // functions did, and with `kernels`, in which backwards then run elementwise operators, what these do. Before the
  // first run.
  void choose_saved(bool kernels);
  // Saved tensors of at most so many bytes stay saved. Returns what it was; for tests.
  static int64_t set_small(int64_t bytes);
  // Records it if there is none yet. Thread-safe.
  const BackwardPlan& plan_for(const std::vector<at::Tensor>& gradients);

  // What a second derivative of a cluster begins with.
  const SecondForward& second_forward(size_t cluster) const { return *second_forwards_[cluster]; }
  // See SecondForward::differentiate(). Thread-safe.
  torch::autograd::variable_list differentiate_again(size_t cluster, const std::vector<at::Tensor>& inputs,
                                                     const torch::autograd::variable_list& gradients);

 private:
  BackwardPlan& add_plan(std::vector<TangentMeta> tangents);
  void choose_watched();
  void add_group_plans();
  void choose_needs();
  bool compute_again(BackwardPlan& plan) const;

  std::shared_ptr<Recording> recording_;
  std::vector<graph::ValueId> saved_;
  std::vector<graph::ValueId> watched_;
  std::vector<size_t> watched_for_;  // beside saved_: where it is in watched_, or beyond its end
  RootGroups groups_;
  std::vector<Needs> needs_;                       // of each group
  std::vector<bool> copied_;                       // beside saved_, may be empty
  std::optional<graph::Rematerialization> again_;  // of the forward, where some of it is computed again
  bool kernels_ = false;
  std::mutex mutex_;
  std::vector<std::unique_ptr<BackwardPlan>> plans_;
  std::vector<std::unique_ptr<SecondForward>> second_forwards_;  // beside the clusters
};

// Makes the nodes of one call, one for each cluster of roots, and gives the roots their history. `inputs`: all inputs
// of the graph. `registers`: after the forward ran.
void attach_history(const std::shared_ptr<TrainingProgram>& program, const Plan& forward, const at::Tensor* inputs,
                    at::Tensor* registers);

}  // namespace framejit::torchlib
