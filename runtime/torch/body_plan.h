// Runs nodes of control flow (graph/control_flow.h).
#pragma once

#include <memory>
#include <vector>

#include "runtime/torch/plan.h"

namespace framejit::torchlib {

// One body: a plan with its parameters and its outputs.
class BodyPlan {
 public:
  BodyPlan(const graph::Graph& body, const ConstantPool& constants, PlanKind kind);
  std::vector<at::Tensor> run(std::vector<at::Tensor> arguments) const;

 private:
  Plan plan_;
  std::vector<uint32_t> inputs_;
  std::vector<uint32_t> outputs_;
};

class ControlFlowPlan {
 public:
  ControlFlowPlan(const graph::Graph& graph, const graph::Node& node, const ConstantPool& constants, PlanKind kind);
  // `tensors` and `lists`: what the node's tensors and lists of tensors are, in the order of its operands.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& tensors,
                              const std::vector<std::vector<at::Tensor>>& lists) const;

 private:
  std::vector<at::Tensor> loop(const std::vector<std::vector<at::Tensor>>& lists) const;

  bool is_loop_;
  BodyPlan first_;
  BodyPlan second_;
};

}  // namespace framejit::torchlib
