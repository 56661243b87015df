#include "runtime/torch/second_forward.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include "graph/alias.h"
#include "graph/passes/dce.h"
#include "graph/split.h"

namespace framejit::torchlib {

using graph::ValueId;
using torch::autograd::variable_list;

namespace {

// A second run of the forward must do nothing that is seen, and give what the first gave. Empty if it does.
std::string why_not_twice(const Recording& recording) {
  const graph::Graph& graph = *recording.joint;
  const graph::AliasClasses aliases(graph);
  std::vector<ValueId> written;
  if (graph.has_states()) return "inference mode or the default dtype changes inside of it";
  if (recording.recorder.program_mixes_grad_modes()) return "grad mode changes inside of it";
  for (size_t n = 0; n < graph.node_count(); ++n) {
    const graph::Node& node = graph.node(graph::NodeId(n));
    const graph::OpInfo& info = graph::op_info(node.op);
    if (info.has(graph::kOpRandom)) return info.name + " draws random numbers";
    if (info.has(graph::kOpSideEffect)) return info.name + " may have effects";
    graph::written_values(graph, node, written);
    for (ValueId id : written)
      if (aliases.is_input(id)) return info.name + " changes a tensor from outside";
  }
  return {};
}

}  // namespace

SecondForward::SecondForward(const Recording& recording, const RootCluster& cluster, bool is_only)
    : recording_(recording), cluster_(cluster), why_not_(why_not_twice(recording)) {
  for (uint32_t root : cluster.roots) roots_.push_back(recording.roots[root]);
  if (is_only) return;
  if (!why_not_.empty()) {
    reads_.assign(recording.inputs.size(), false);
  } else if (recording.functions.empty()) {  // whose calls know the values of the whole
    take_part();
  }
}

void SecondForward::take_part() {
  graph::Split split = graph::split_off(*recording_.joint, {.name = "forward", .outputs = roots_, .locations = false});
  part_.emplace(std::move(split.graph));
  roots_ = std::move(split.outputs);
  graph::eliminate_dead_code(*part_);
  reads_.assign(recording_.inputs.size(), false);
  const std::vector<bool> read = graph::read_values(*part_);
  for (size_t i = 0; i < split.captured.size(); ++i) {
    const ValueId value = part_->inputs()[i];
    if (!read[value.index()]) continue;
    const uint32_t input = recording_.joint->value(split.captured[i]).index;
    inputs_.emplace_back(input, value);
    reads_[input] = true;
  }
}

void SecondForward::prepare() {
  TORCH_CHECK(why_not_.empty(),
              "framejit: a captured graph cannot be differentiated twice, or when what a backward "
              "reads has changed, if ",
              why_not_, "; run it under framejit.enable_to_static_guard(False)");
  if (plan_) return;
  if (!part_)
    for (uint32_t i = 0; i < recording_.inputs.size(); ++i) inputs_.emplace_back(i, graph().inputs()[i]);
  std::vector<ValueId> keep = recording_.functions.values();
  keep.insert(keep.end(), roots_.begin(), roots_.end());
  plan_ = std::make_unique<Plan>(graph(), keep, recording_.recorder.constants(), std::vector<bool>(),
                                 PlanKind::kWithAutograd);
}

variable_list SecondForward::differentiate(const std::vector<at::Tensor>& inputs,
                                           const variable_list& gradients) const {
  const bool create_graph = c10::GradMode::is_enabled();
  c10::AutoGradMode grad_mode(true);
  std::vector<at::Tensor> registers(plan_->register_count());
  {
    c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    for (const auto& [input, value] : inputs_) registers[value.index()] = inputs[input];
    recording_.functions.run(*plan_, registers.data());
  }
  variable_list outputs, grad_outputs, wanted;
  for (size_t i = 0; i < roots_.size(); ++i) {
    const at::Tensor& gradient = gradients[cluster_.roots[i]];
    if (!gradient.defined()) continue;
    outputs.push_back(registers[plan_->register_of(roots_[i])]);
    grad_outputs.push_back(gradient);
  }
  for (uint32_t i : cluster_.inputs) wanted.push_back(inputs[recording_.differentiable_inputs[i]]);
  return torch::autograd::grad(outputs, wanted, grad_outputs, create_graph, create_graph, /*allow_unused=*/true);
}

}  // namespace framejit::torchlib
