#include "runtime/torch/second_forward.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <unordered_map>

#include "graph/alias.h"
#include "graph/passes/dce.h"
#include "graph/split.h"
#include "runtime/torch/node_pointer.h"

namespace framejit::torchlib {

using graph::ValueId;
using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;
namespace impl = torch::autograd::impl;

namespace {

// Scope in which edges of autograd's graph lead elsewhere.
class CutEdges {
 public:
  CutEdges() = default;
  ~CutEdges() {
    for (auto& [edge, was] : cut_) *edge = std::move(was);
  }
  CutEdges(const CutEdges&) = delete;
  CutEdges& operator=(const CutEdges&) = delete;
  void add(Edge& edge, const Edge& end) { cut_.emplace_back(&edge, std::exchange(edge, end)); }

 private:
  std::vector<std::pair<Edge*, Edge>> cut_;
};

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

SecondForward::SecondForward(const Recording& recording, const History& history, size_t block)
    : recording_(recording), history_(history), block_(block), why_not_(why_not_twice(recording)) {
  if (is_whole()) {
    roots_ = recording.roots;
    return;
  }
  roots_ = {recording.roots[history.blocks[block].root]};
  if (!why_not_.empty()) {
    reads_.assign(recording.inputs.size(), false);
  } else if (recording.functions.empty()) {  // whose calls know the values of the whole
    take_part();
  }
}

bool SecondForward::is_whole() const {
  const std::vector<BlockExit>& exits = block().exits;
  return history_.blocks.size() == 1 && history_.views.empty() &&
         std::all_of(exits.begin(), exits.end(),
                     [](const BlockExit& exit) { return exit.to == BlockExit::To::kInput; });
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
  if (!is_whole()) find_places();
  if (!part_)
    for (uint32_t i = 0; i < recording_.inputs.size(); ++i) inputs_.emplace_back(i, graph().inputs()[i]);
  std::vector<ValueId> keep = recording_.functions.values();
  keep.insert(keep.end(), roots_.begin(), roots_.end());
  plan_ = std::make_unique<Plan>(graph(), keep, recording_.recorder.constants(), std::vector<bool>(),
                                 PlanKind::kWithAutograd);
}

// What differentiable inputs end in.
static std::vector<const Node*> ends_among(const Recording& recording, const std::vector<at::Tensor>& inputs) {
  std::vector<const Node*> ends;
  for (uint32_t input : recording.differentiable_inputs)
    if (inputs[input].defined()) ends.push_back(impl::gradient_edge(inputs[input]).function.get());
  return ends;
}

void SecondForward::find_places() {
  std::vector<at::Tensor> inputs;
  for (const InputFake& input : recording_.inputs) inputs.push_back(input.fake);
  fakes_ = operations_of(impl::gradient_edge(recording_.root_fakes[block().root]), ends_among(recording_, inputs));
  std::unordered_map<const Node*, std::vector<Place>> arrivals;  // by the end of each
  std::unordered_map<const Node*, uint32_t> operations;
  for (uint32_t i = 0; i < fakes_.size(); ++i) {
    operations[fakes_[i]] = i;
    const edge_list& edges = fakes_[i]->next_edges();
    for (uint32_t output = 0; output < edges.size(); ++output)
      arrivals[edges[output].function.get()].push_back({i, output});
  }
  for (const Edge& entry : block().entries) entries_.push_back({operations.at(entry.function.get()), entry.input_nr});
  for (const BlockExit& exit : block().exits) {
    std::vector<Place>& places = exits_.emplace_back();
    for (const Edge& arrival : exit.arrivals) places.push_back(arrivals.at(arrival.function.get()).front());
  }
}

variable_list SecondForward::differentiate(const std::vector<at::Tensor>& inputs, const variable_list& gradients,
                                           const std::vector<bool>& wanted) const {
  std::vector<at::Tensor> registers(plan_->register_count());
  {
    c10::AutoGradMode grad_mode(true);
    c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    for (const auto& [input, value] : inputs_) registers[value.index()] = inputs[input];
    recording_.functions.run(*plan_, registers.data());
  }
  std::vector<uint32_t> exits;
  for (uint32_t i = 0; i < block().exits.size(); ++i)
    if (wanted.empty() || wanted[i]) exits.push_back(i);
  variable_list found = is_whole()
                            ? differentiate_all(registers.data(), inputs, gradients, exits)
                            : differentiate_block(registers[plan_->register_of(roots_[0])], inputs, gradients, exits);
  variable_list results(block().exits.size());
  for (size_t i = 0; i < exits.size(); ++i) results[exits[i]] = std::move(found[i]);
  return results;
}

variable_list SecondForward::differentiate_all(const at::Tensor* registers, const std::vector<at::Tensor>& inputs,
                                               const variable_list& gradients,
                                               const std::vector<uint32_t>& exits) const {
  const bool create_graph = c10::GradMode::is_enabled();
  c10::AutoGradMode grad_mode(true);
  variable_list outputs, grad_outputs, wanted;
  for (size_t i = 0; i < roots_.size(); ++i) {
    const at::Tensor& gradient = gradients[history_.roots[i].entry];
    if (!gradient.defined()) continue;
    outputs.push_back(registers[plan_->register_of(roots_[i])]);
    grad_outputs.push_back(gradient);
  }
  for (uint32_t exit : exits) wanted.push_back(inputs[recording_.differentiable_inputs[block().exits[exit].index]]);
  return torch::autograd::grad(outputs, wanted, grad_outputs, create_graph, create_graph, /*allow_unused=*/true);
}

void SecondForward::require_same_shape(const Operations& operations) const {
  bool same = operations.size() == fakes_.size();
  for (size_t i = 0; same && i < fakes_.size(); ++i)
    same = operations[i]->next_edges().size() == fakes_[i]->next_edges().size() &&
           operations[i]->num_inputs() == fakes_[i]->num_inputs();
  TORCH_CHECK(same,
              "framejit: the operators of a captured graph make another history when they run again, so it cannot be "
              "differentiated twice; run it under framejit.enable_to_static_guard(False)");
}

variable_list SecondForward::differentiate_block(const at::Tensor& root, const std::vector<at::Tensor>& inputs,
                                                 const variable_list& gradients,
                                                 const std::vector<uint32_t>& exits) const {
  const bool create_graph = c10::GradMode::is_enabled();
  const Operations operations = operations_of(impl::gradient_edge(root), ends_among(recording_, inputs));
  require_same_shape(operations);
  edge_list begin, end;
  variable_list begin_gradients;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!gradients[i].defined()) continue;
    begin.push_back({pointer_to(operations[entries_[i].operation]), entries_[i].number});
    begin_gradients.push_back(gradients[i]);
  }
  CutEdges cut;
  for (uint32_t exit : exits) {
    const std::vector<Place>& arrivals = exits_[exit];
    const Edge target = operations[arrivals[0].operation]->next_edge(arrivals[0].number);
    end.push_back(end_in_place_of(target));
    for (const Place& arrival : arrivals)
      cut.add(operations[arrival.operation]->next_edges()[arrival.number], end.back());
  }
  c10::AutoGradMode grad_mode(true);
  return torch::autograd::Engine::get_default_engine().execute(begin, begin_gradients, create_graph, create_graph,
                                                               /*accumulate_grad=*/false, end);
}

}  // namespace framejit::torchlib
