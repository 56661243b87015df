#include "runtime/torch/second_forward.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

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

// Behind these the values have the history that they have as results.
std::vector<graph::NodeId> last_nodes_to_make(const graph::Graph& graph, const std::vector<ValueId>& values) {
  std::vector<graph::NodeId> last;
  last.reserve(values.size());
  for (ValueId value : values) last.push_back(graph.value(value).definition);
  if (values.empty()) return last;
  const graph::AliasClasses aliases(graph);
  std::vector<ValueId> written;
  for (size_t n = 0; n < graph.node_count(); ++n) {
    if (graph.node(graph::NodeId(n)).erased) continue;
    graph::written_values(graph, graph.node(graph::NodeId(n)), written);
    for (size_t i = 0; i < values.size(); ++i)
      if (std::any_of(written.begin(), written.end(), [&](ValueId id) { return aliases.may_alias(id, values[i]); }))
        last[i] = std::max(last[i], graph::NodeId(n));
  }
  return last;
}

}  // namespace

SecondForward::SecondForward(const Recording& recording, const History& history, size_t block)
    : recording_(recording), history_(history), block_(block), why_not_(why_not_twice(recording)) {
  is_seen_.resize(this->block().entries.size());
  for (size_t i = 0; i < is_seen_.size(); ++i) is_seen_[i] = this->block().results[i] != HistoryBlock::kNoRoot;
  for (const auto& [output, place] : history.views)
    if (place.block == block) is_seen_[place.entry] = true;
  if (is_whole()) {
    roots_ = recording.roots;
    return;
  }
  roots_ = {recording.roots[history.blocks[block].root]};
  below_ = torchlib::results_below(recording, history, block);
  for (const ResultBelow& result : below_) below_values_.push_back(result.value);
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
  std::vector<ValueId> outputs = roots_;
  outputs.insert(outputs.end(), below_values_.begin(), below_values_.end());
  graph::Split split = graph::split_off(*recording_.joint, {.name = "forward", .outputs = outputs, .locations = false});
  part_.emplace(std::move(split.graph));
  roots_ = {split.outputs.front()};
  below_values_.assign(split.outputs.begin() + 1, split.outputs.end());
  graph::eliminate_dead_code(*part_);
  part_->compact();
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
  below_made_ = last_nodes_to_make(graph(), below_values_);
  std::vector<ValueId> keep = recording_.functions.values();
  keep.insert(keep.end(), roots_.begin(), roots_.end());
  keep.insert(keep.end(), below_values_.begin(), below_values_.end());
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

// What ends a walk over the history that a second run makes.
static std::vector<const Node*> ends_among(const Recording& recording, const std::vector<at::Tensor>& inputs,
                                           const edge_list& below) {
  std::vector<const Node*> ends = ends_among(recording, inputs);
  for (const Edge& edge : below) ends.push_back(edge.function.get());
  return ends;
}

void SecondForward::find_places() {
  std::vector<at::Tensor> inputs;
  for (const InputFake& input : recording_.inputs) inputs.push_back(input.fake);
  edge_list stops;
  for (const ResultBelow& result : below_) stops.push_back(result.fake);
  fakes_ =
      operations_of({impl::gradient_edge(recording_.root_fakes[block().root])}, ends_among(recording_, inputs), stops);
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

// Results in the history of others get the one that they have in the call.
void SecondForward::run(const std::vector<at::Tensor>& inputs, const edge_list& below,
                        std::vector<at::Tensor>& registers) const {
  c10::AutoGradMode grad_mode(true);
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  for (const auto& [input, value] : inputs_) registers[value.index()] = inputs[input];
  recording_.functions.run(*plan_, registers.data(), [&](graph::NodeId node) {
    for (size_t i = 0; i < below_values_.size(); ++i)
      if (below_made_[i] == node) impl::set_gradient_edge(registers[plan_->register_of(below_values_[i])], below[i]);
  });
}

// Where the forward of the whole leads: to the inputs.
SecondForward::Again SecondForward::whole_again(const at::Tensor* registers,
                                                const std::vector<at::Tensor>& inputs) const {
  Again again;
  edge_list from;
  for (ValueId root : roots_) from.push_back(impl::gradient_edge(registers[plan_->register_of(root)]));
  again.operations = operations_of(from, ends_among(recording_, inputs));
  again.entries.resize(block().entries.size());
  for (size_t i = 0; i < roots_.size(); ++i) again.entries[history_.roots[i].entry] = from[i];
  std::map<std::pair<const Node*, uint32_t>, size_t> exits;
  for (size_t i = 0; i < block().exits.size(); ++i) {
    const Edge target = impl::gradient_edge(inputs[recording_.differentiable_inputs[block().exits[i].index]]);
    exits.try_emplace({target.function.get(), target.input_nr}, i);
  }
  again.exits.resize(block().exits.size());
  for (Node* operation : again.operations)
    for (Edge& edge : operation->next_edges())
      if (const auto found = exits.find({edge.function.get(), edge.input_nr}); found != exits.end())
        again.exits[found->second].push_back(&edge);
  return again;
}

SecondForward::Again SecondForward::block_again(const at::Tensor& root, const std::vector<at::Tensor>& inputs,
                                                const edge_list& below) const {
  Again again;
  again.operations = operations_of({impl::gradient_edge(root)}, ends_among(recording_, inputs, below));
  require_same_shape(again.operations);
  for (const Place& place : entries_)
    again.entries.emplace_back(pointer_to(again.operations[place.operation]), place.number);
  for (const std::vector<Place>& arrivals : exits_) {
    std::vector<Edge*>& edges = again.exits.emplace_back();
    for (const Place& arrival : arrivals)
      edges.push_back(&again.operations[arrival.operation]->next_edges()[arrival.number]);
  }
  return again;
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

variable_list SecondForward::differentiate(const NodePtr& node, const edge_list& below,
                                           const std::vector<at::Tensor>& inputs, const variable_list& gradients,
                                           const std::vector<bool>& wanted) const {
  // The nodes in which these end are told by their addresses below: those of leaves are there while they are held.
  edge_list held;
  for (const variable_list* tensors : {&inputs, &gradients})
    for (const at::Tensor& tensor : *tensors)
      if (tensor.defined()) held.push_back(impl::gradient_edge(tensor));
  std::vector<at::Tensor> registers(plan_->register_count());
  run(inputs, below, registers);
  const Again again = is_whole() ? whole_again(registers.data(), inputs)
                                 : block_again(registers[plan_->register_of(roots_[0])], inputs, below);
  variable_list results = collect(again, gradients, wanted);
  if (!c10::GradMode::is_enabled()) return results;
  std::vector<const Node*> ends = ends_among(recording_, inputs, below);
  for (const at::Tensor& gradient : gradients)
    if (gradient.defined()) ends.push_back(impl::gradient_edge(gradient).function.get());
  lead_to_results(again, node, ends, results);
  return results;
}

// At ends of its own: where the exits lead, hooks would run.
variable_list SecondForward::collect(const Again& again, const variable_list& gradients,
                                     const std::vector<bool>& wanted) {
  edge_list begin, end;
  variable_list begin_gradients;
  for (size_t i = 0; i < again.entries.size(); ++i) {
    if (!gradients[i].defined()) continue;
    begin.push_back(again.entries[i]);
    begin_gradients.push_back(gradients[i]);
  }
  CutEdges cut;
  std::vector<size_t> found_at;
  for (size_t exit = 0; exit < again.exits.size(); ++exit) {
    const std::vector<Edge*>& arrivals = again.exits[exit];
    if (arrivals.empty() || !(wanted.empty() || wanted[exit])) continue;
    end.push_back(end_in_place_of(*arrivals[0]));
    found_at.push_back(exit);
    for (Edge* arrival : arrivals) cut.add(*arrival, end.back());
  }
  variable_list results(again.exits.size());
  if (end.empty()) return results;
  const bool create_graph = c10::GradMode::is_enabled();
  c10::AutoGradMode grad_mode(true);
  variable_list found = torch::autograd::Engine::get_default_engine().execute(
      begin, begin_gradients, create_graph, create_graph, /*accumulate_grad=*/false, end);
  for (size_t i = 0; i < found.size(); ++i) results[found_at[i]] = std::move(found[i]);
  return results;
}

// Formulas read results of their own operations, which are results of the call: what is behind them is its node.
void SecondForward::lead_to_results(const Again& again, const NodePtr& node, const std::vector<const Node*>& ends,
                                    const variable_list& gradients) const {
  std::unordered_set<const Node*> seen(ends.begin(), ends.end());
  seen.insert(again.operations.begin(), again.operations.end());
  std::vector<Node*> pending;
  auto go_to = [&](Node* next) {
    if (next && seen.insert(next).second) pending.push_back(next);
  };
  for (const at::Tensor& gradient : gradients)
    if (gradient.defined()) go_to(gradient.grad_fn().get());
  while (!pending.empty()) {
    Node* next = pending.back();
    pending.pop_back();
    for (Edge& edge : next->next_edges()) {
      const auto entry = std::find(again.entries.begin(), again.entries.end(), edge);
      const auto i = static_cast<uint32_t>(entry - again.entries.begin());
      if (entry != again.entries.end() && is_seen_[i]) edge = Edge(node, i);
      go_to(edge.function.get());
    }
  }
}

}  // namespace framejit::torchlib
