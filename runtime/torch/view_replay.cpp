#include "runtime/torch/view_replay.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

namespace framejit::torchlib {

using graph::ValueId;

ViewReplay::ViewReplay(const graph::Graph& graph, const Recording& recording) : nodes_(graph.node_count()) {
  for (const OutputSpec& output : recording.outputs) {
    values_.push_back(output.value);
    data_.push_back(output.data);
    from_views_.push_back(false);
    roots_.push_back(output.value);
    chains_.emplace_back();
    if (output.input < 0) add_chain(graph, recording, output.value);
  }
}

void ViewReplay::add_chain(const graph::Graph& graph, const Recording& recording, ValueId value) {
  std::vector<std::pair<const graph::Node*, ValueId>> chain;  // from the output to its root
  ValueId base, root = value;
  while (const graph::Node* node = view_step(graph, root, &base)) {
    chain.emplace_back(node, root);
    root = base;
  }
  // Operators that change the root's own sizes have been run on it.
  while (!chain.empty() && !op_entry_by_id(chain.back().first->op)->is_view) chain.pop_back();
  roots_.back() = root;
  from_views_.back() = !chain.empty();
  ValueId from = root;
  for (size_t i = chain.size(); i-- > 0;) {
    auto [node, result] = chain[i];
    size_t index = graph.value(result).definition.index();
    bool known = nodes_[index];
    nodes_[index] = true;
    ValueId node_base;
    view_step(graph, result, &node_base);
    if (!known) {
      const OpEntry* op = op_entry_by_id(node->op);
      Step step{op,
                {},
                0,
                node_base.value,
                i + 1 == chain.size(),
                recording.recorder.grad_mode_of(result, recording.state.grad_mode()),
                graph.node(graph::NodeId(index)).state.inference,
                {}};
      for (size_t a = 0; a < node->operand_count; ++a) {
        const graph::Operand& operand = node->arg(a);
        if (operand.is_value()) {
          step.base_arg = static_cast<uint16_t>(a);
          step.arguments.emplace_back();
        } else {
          step.arguments.push_back(from_operand(operand, op->args[a], recording.recorder.constants()));
        }
      }
      for (size_t r = 0; r < node->result_count; ++r) step.results.push_back(node->result(r).value);
      step_of_[index] = steps_.size();
      steps_.push_back(std::move(step));
    }
    chains_.back().push_back(step_of_.at(index));
    from = result;
  }
}

static const at::Tensor& tensor_of(const Plan& plan, const at::Tensor* registers, const ViewReplay::Views& views,
                                   uint32_t value, bool is_root) {
  return is_root ? registers[plan.register_of(ValueId(value))] : views.at(value);
}

void ViewReplay::run(const Step& step, const Plan& plan, const at::Tensor* registers, Views& views) const {
  std::optional<c10::InferenceMode> inference;
  if (step.inference && *step.inference != c10::InferenceMode::is_enabled()) inference.emplace(*step.inference);
  c10::AutoGradMode grad_mode(step.grad_mode);
  torch::jit::Stack stack(step.arguments.begin(), step.arguments.end());
  stack[step.base_arg] = tensor_of(plan, registers, views, step.base, step.base_is_root);
  step.op->handle.callBoxed(stack);
  if (stack[0].isTensorList()) {
    size_t next = 0;
    for (const at::Tensor& item : stack[0].toTensorVector()) views[step.results[next++]] = item;
  } else {
    views[step.results[0]] = stack[0].toTensor();
  }
}

const at::Tensor& ViewReplay::make(size_t output, const Plan& plan, const at::Tensor* registers, Views& views) const {
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  for (size_t step : chains_[output])
    if (!views.count(steps_[step].results[0])) run(steps_[step], plan, registers, views);
  return tensor_of(plan, registers, views, values_[output].value, !from_views_[output]);
}

std::vector<at::Tensor> ViewReplay::make_all(const Plan& plan, const at::Tensor* registers, Views& views) const {
  std::vector<at::Tensor> outputs;
  for (size_t i = 0; i < values_.size(); ++i) {
    outputs.push_back(make(i, plan, registers, views));
    if (data_[i]) outputs.back() = outputs.back().variable_data();
  }
  return outputs;
}

}  // namespace framejit::torchlib
