// Outputs that are views are made by LibTorch's own view operators, with autograd in force, on the real base: so
// `_base`, version counters, grad_fn and the rules for in-place writes are eager's.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/torch/plan.h"
#include "runtime/torch/recording.h"

namespace framejit::torchlib {

class ViewReplay {
 public:
  ViewReplay() = default;
  ViewReplay(const graph::Graph& graph, const Recording& recording);

  bool empty() const { return steps_.empty(); }
  // For each output: the value whose register has its tensor, or the base of its chain.
  const std::vector<graph::ValueId>& roots() const { return roots_; }
  // Nodes that run() makes anew, by index; the plan needs them only if something else uses their results.
  const std::vector<bool>& nodes() const { return nodes_; }

  using Views = std::unordered_map<uint32_t, at::Tensor>;  // by value
  // Makes what is not there yet of one output's chain of views, from the registers of the roots. Returns the last.
  const at::Tensor& make(size_t output, const Plan& plan, const at::Tensor* registers, Views& views) const;
  // The tensor of each output.
  std::vector<at::Tensor> make_all(const Plan& plan, const at::Tensor* registers, Views& views) const;

 private:
  struct Step {
    const OpEntry* op;
    std::vector<c10::IValue> arguments;
    uint16_t base_arg;
    uint32_t base;  // a value
    bool base_is_root;
    bool grad_mode;
    std::optional<bool> inference;  // none: as where the graph runs
    std::vector<uint32_t> results;  // values
  };
  void run(const Step& step, const Plan& plan, const at::Tensor* registers, Views& views) const;
  void add_chain(const graph::Graph& graph, const Recording& recording, graph::ValueId value);

  std::vector<Step> steps_;
  std::unordered_map<size_t, size_t> step_of_;  // by node
  std::vector<std::vector<size_t>> chains_;     // of each output, steps
  std::vector<graph::ValueId> roots_;
  std::vector<graph::ValueId> values_;
  std::vector<bool> from_views_;
  std::vector<bool> data_;
  std::vector<bool> nodes_;
};

}  // namespace framejit::torchlib
