#include "runtime/torch/body_plan.h"

#include <ATen/ops/clone.h>
#include <ATen/ops/is_nonzero.h>

#include "graph/control_flow.h"

namespace framejit::torchlib {

BodyPlan::BodyPlan(const graph::Graph& body, const ConstantPool& constants, PlanKind kind)
    : plan_(body, body.outputs(), constants, {}, kind) {
  for (graph::ValueId id : body.inputs()) inputs_.push_back(id.value);
  for (graph::ValueId id : body.outputs()) outputs_.push_back(plan_.register_of(id));
}

std::vector<at::Tensor> BodyPlan::run(std::vector<at::Tensor> arguments) const {
  std::vector<at::Tensor> registers(plan_.register_count()), results;
  for (size_t i = 0; i < inputs_.size(); ++i) registers[inputs_[i]] = std::move(arguments[i]);
  plan_.run(registers.data());
  for (uint32_t output : outputs_) results.push_back(registers[output]);
  return results;
}

namespace {

const graph::Graph& body_of(const graph::Graph& graph, const graph::Node& node, size_t which) {
  for (const graph::Operand& operand : node.args())
    if (operand.is(graph::Operand::Kind::kSubgraph) && which-- == 0) return *graph.subgraph(operand.as_subgraph());
  FJ_CHECK(false, "a node of control flow without its bodies");
  __builtin_unreachable();
}

std::vector<at::Tensor> joined(const std::vector<at::Tensor>& captured, const std::vector<at::Tensor>& carried) {
  std::vector<at::Tensor> all = captured;
  all.insert(all.end(), carried.begin(), carried.end());
  return all;
}

}  // namespace

ControlFlowPlan::ControlFlowPlan(const graph::Graph& graph, const graph::Node& node, const ConstantPool& constants,
                                 PlanKind kind)
    : is_loop_(node.op == graph::while_loop_op()),
      first_(body_of(graph, node, 0), constants, kind),
      second_(body_of(graph, node, 1), constants, kind) {}

std::vector<at::Tensor> ControlFlowPlan::run(const std::vector<at::Tensor>& tensors,
                                             const std::vector<std::vector<at::Tensor>>& lists) const {
  if (is_loop_) return loop(lists);
  const bool taken = at::is_nonzero(tensors.at(0));
  return taken ? first_.run(lists.at(0)) : second_.run(lists.at(1));
}

// A loop that runs no times gives copies: its results are new tensors whichever way it goes.
std::vector<at::Tensor> ControlFlowPlan::loop(const std::vector<std::vector<at::Tensor>>& lists) const {
  std::vector<at::Tensor> carried = lists.at(0);
  bool ran = false;
  for (; at::is_nonzero(first_.run(joined(lists.at(1), carried)).at(0)); ran = true)
    carried = second_.run(joined(lists.at(2), carried));
  if (!ran)
    for (at::Tensor& tensor : carried) tensor = tensor.clone();
  return carried;
}

}  // namespace framejit::torchlib
