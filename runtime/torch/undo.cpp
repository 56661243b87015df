#include "runtime/torch/undo.h"

#include <ATen/Context.h>
#include <ATen/ops/index.h>

#include <algorithm>

#include "graph/alias.h"
#include "graph/failure.h"
#include "runtime/torch/convert.h"
#include "runtime/torch/plan.h"

namespace framejit::torchlib {

using graph::Operand;
using graph::ValueId;

void UndoLog::save(const at::Tensor& written) { contents_.push_back({written, written.clone(), {}}); }

void UndoLog::save(const at::Tensor& written, const Indices& indices) {
  auto is_mask = [](const std::optional<at::Tensor>& index) {
    return index && (index->scalar_type() == at::kBool || index->scalar_type() == at::kByte);
  };
  std::vector<std::optional<at::Tensor>> all = indices.vec();
  if (std::any_of(all.begin(), all.end(), is_mask)) return save(written);
  Indices kept;  // what selects the elements may be written itself
  for (const std::optional<at::Tensor>& index : all)
    kept.push_back(index ? std::optional<at::Tensor>(index->clone()) : std::nullopt);
  at::Tensor content;
  try {
    content = at::index(written, kept);
  } catch (const c10::Error&) {  // an index out of range: the operator will say so, maybe half-way
    return save(written);
  }
  contents_.push_back({written, std::move(content), std::move(kept)});
}

void UndoLog::save_version(const at::Tensor& written) {
  if (!written.is_inference()) versions_.emplace_back(written, written._version());
}

void UndoLog::save_generator(at::Device device) {
  for (const auto& [generator, state] : generators_)
    if (generator.device() == device) return;
  at::Generator generator = at::globalContext().defaultGenerator(device);
  at::Tensor state = generator.get_state();
  generators_.emplace_back(std::move(generator), std::move(state));
}

void UndoLog::undo() {
  for (size_t i = contents_.size(); i-- > 0;) {
    Content& saved = contents_[i];
    if (saved.indices) {
      saved.target.index_put_(*saved.indices, saved.content);
    } else {
      saved.target.copy_(saved.content);
    }
  }
  for (size_t i = versions_.size(); i-- > 0;) {
    c10::VariableVersion counter = versions_[i].first.unsafeGetTensorImpl()->version_counter();  // shares its number
    counter.set_version(versions_[i].second);
  }
  for (auto& [generator, state] : generators_) generator.set_state(state);
  contents_.clear();
  versions_.clear();
  generators_.clear();
}

namespace {

bool leaves_any_trace(const graph::Graph& graph) {
  constexpr uint32_t kLeavesOne = graph::kOpSideEffect | graph::kOpRandom | graph::kOpMetaInPlace;
  for (size_t n = 0; n < graph.node_count(); ++n) {
    const graph::Node& node = graph.node(graph::NodeId(n));
    if (!node.erased && (graph::op_info(node.op).flags & kLeavesOne)) return true;
  }
  return graph::writes_anything(graph);
}

// What the program can see of a node's run, other than its results.
class Trace {
 public:
  explicit Trace(const graph::Graph& graph) : graph_(graph), aliases_(graph) {}

  std::vector<ValueId> writes(const graph::Node& node) const {
    std::vector<ValueId> written;
    graph::written_values(graph_, node, written);
    std::erase_if(written, [&](ValueId id) { return !aliases_.is_input(id); });
    return written;
  }
  std::vector<ValueId> writes(std::span<const graph::NodeId> nodes) const {
    std::vector<ValueId> written;
    for (graph::NodeId id : nodes)
      for (ValueId value : writes(graph_.node(id)))
        if (std::find(written.begin(), written.end(), value) == written.end()) written.push_back(value);
    return written;
  }

  std::vector<at::Device> draws(const graph::Node& node) const {
    std::vector<at::Device> devices;
    if (!graph::op_info(node.op).has(graph::kOpRandom)) return devices;
    auto add = [&](ValueId id) {
      at::Device found = from_device(graph_.meta(id).device);
      if (found.is_meta()) return;  // nothing is drawn
      if (std::find(devices.begin(), devices.end(), found) == devices.end()) devices.push_back(found);
    };
    for (size_t i = 0; i < node.result_count; ++i) add(node.result(i));
    return devices;
  }

  // Whether it does what cannot be taken back, as the kernel of a custom operator may.
  bool is_final(const graph::Node& node) const {
    const graph::OpInfo& info = graph::op_info(node.op);
    if (info.has(graph::kOpSideEffect)) return true;
    if (info.has(graph::kOpRandom) && has_own_generator(node)) return true;
    return info.has(graph::kOpMetaInPlace) && !writes(node).empty();
  }

 private:
  bool has_own_generator(const graph::Node& node) const {
    const graph::OpInfo& info = graph::op_info(node.op);
    for (size_t i = 0; i < node.operand_count && i < info.parsed.args.size(); ++i)
      if (info.parsed.args[i].type == "Generator?" && !node.arg(i).is(Operand::Kind::kNone)) return true;
    return false;
  }

  const graph::Graph& graph_;
  graph::AliasClasses aliases_;
};

// The registers of the indices, if the operator writes only what they select of its first argument.
std::vector<int64_t> indices_of(const Plan& plan, const graph::Node& node) {
  const std::string_view name = graph::op_name(node.op);
  auto reg = [&](ValueId id) { return id.valid() ? int64_t{plan.register_of(id)} : -1; };
  std::vector<int64_t> indices;
  if (name == "aten::index_put_" || name == "aten::_index_put_impl_") {
    for (ValueId id : node.arg(1).as_values()) indices.push_back(reg(id));
  } else if (name == "aten::index_copy_" || name == "aten::index_add_" || name == "aten::index_fill_.int_Scalar") {
    if (node.arg(1).as_int() < 0) return {};
    indices.assign(static_cast<size_t>(node.arg(1).as_int()), -1);
    indices.push_back(reg(node.arg(2).as_value()));
  }
  return indices;
}

}  // namespace

UndoPlan::UndoPlan(const graph::Graph& graph, const Plan& plan, UndoOf failures) : first_trace_(plan.step_count()) {
  if (!leaves_any_trace(graph)) return;
  const Trace trace(graph);
  const size_t count = plan.step_count();
  size_t saved_end = 0;  // nothing behind the last operator that may raise needs saving
  for (size_t s = 0; failures != UndoOf::kNothing && s < count; ++s) {
    if (failures == UndoOf::kOverlaps && !trace.writes(plan.step_nodes(s)).empty()) saved_end = s + 1;
    for (graph::NodeId id : plan.step_nodes(s))
      if (graph::may_raise(graph, graph.node(id))) saved_end = s + 1;
  }
  std::vector<bool> is_input(plan.register_count(), false);
  for (ValueId input : graph.inputs()) is_input[plan.register_of(input)] = true;
  rows_.resize(saved_end);
  for (size_t s = 0; s < count; ++s) {
    const graph::Node& node = graph.node(plan.step_node(s));
    const std::vector<ValueId> writes = trace.writes(plan.step_nodes(s));
    std::vector<at::Device> draws = trace.draws(node);  // nodes that run as one draw nothing
    const bool leaves_some = !writes.empty() || graph::op_info(node.op).has(graph::kOpRandom);
    if (trace.is_final(node) || (leaves_some && s >= saved_end)) {
      first_trace_ = s;
      break;
    }
    if (!leaves_some) continue;
    saves_ = true;
    Row& row = rows_[s];
    row.draws = std::move(draws);
    for (ValueId id : writes) row.written.push_back(plan.register_of(id));
    for (uint32_t reg : plan.step_bumps(s))
      if (is_input[reg]) row.versions.push_back(reg);
    if (row.written.size() == 1) row.indices = indices_of(plan, node);
  }
  if (!saves_) rows_.clear();
}

void UndoPlan::before_step(size_t step, at::Tensor* registers, UndoLog& log) const {
  if (step >= rows_.size()) return;
  const Row& row = rows_[step];
  for (at::Device device : row.draws) log.save_generator(device);
  for (uint32_t reg : row.versions) log.save_version(registers[reg]);
  if (row.indices.empty()) {
    for (uint32_t reg : row.written) log.save(registers[reg]);
    return;
  }
  UndoLog::Indices indices;
  for (int64_t reg : row.indices) indices.push_back(reg < 0 ? std::nullopt : std::optional<at::Tensor>(registers[reg]));
  log.save(registers[row.written[0]], indices);
}

}  // namespace framejit::torchlib
