#include "runtime/torch/frozen_executable.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include "graph/alias.h"
#include "graph/passes/dce.h"
#include "graph/passes/frozen.h"
#include "graph/passes/pack.h"
#include "runtime/torch/distinct_inputs.h"
#include "runtime/torch/environment.h"
#include "runtime/torch/frozen_inputs.h"
#include "runtime/torch/gil.h"
#include "runtime/torch/graph_object.h"
#include "runtime/torch/op_entry.h"
#include "runtime/torch/plan.h"
#include "runtime/torch/py_tensor.h"
#include "runtime/torch/replaced_graph.h"
#include "runtime/torch/trace_stop.h"

namespace framejit::torchlib {
namespace {

using graph::ValueId;
using runtime::RunStatus;

// What the caller passed and what was computed once, as the graph takes them.
using Inputs = std::vector<PyObject*>;

std::atomic<uint64_t> computed_in_process, packed_in_process;

// An input whose numbers are in the values.
struct FrozenInput {
  uint32_t input;
  bool by_content;
};

// One computation of what is frozen, and what it was computed from.
struct OnceValues {
  FrozenInputs inputs;
  std::vector<Ref> tensors;
};

class FrozenExecutable final : public runtime::Executable {
 public:
  FrozenExecutable(const graph::Graph& captured, graph::FrozenSplit split, std::vector<FrozenInput> frozen,
                   std::vector<OutputSpec> outputs, std::shared_ptr<Recording> recording, OnFailure on_failure)
      : captured_(captured),
        split_(std::move(split)),
        frozen_(std::move(frozen)),
        outputs_(std::move(outputs)),
        facts_(program_facts(*recording)),
        once_(split_.once, split_.once.outputs(), recording->recorder.constants()) {
    add_written(recording->recorder.constants());
    rest_ = make_aten_executable(split_.rest, std::move(recording), nullptr, on_failure,
                                 {.kernels = true, .checks_first_run = true});
  }

  size_t output_count() const override { return outputs_.size(); }
  Ref graph_object(std::vector<std::string> sources) const override {
    return copy_of_program(captured_, facts_, outputs_, std::move(sources));
  }
  RunStatus run(PyObject* const* inputs, PyObject** outputs) override;

 private:
  void add_written(const ConstantPool& constants);
  bool is_up_to_date(PyObject* const* inputs) const;
  void compute_once(PyObject* const* inputs);

  const graph::Graph& captured_;  // the capture's, which lives as long
  const graph::FrozenSplit split_;
  const std::vector<FrozenInput> frozen_;
  const std::vector<OutputSpec> outputs_;
  const ProgramFacts facts_;
  const Plan once_;
  std::optional<DistinctInputs> written_;  // where the graph writes inputs: these must not be frozen ones as well
  std::unique_ptr<runtime::Executable> rest_;
  std::shared_ptr<const OnceValues> values_;  // replaced under the GIL; null before the first call
};

void FrozenExecutable::add_written(const ConstantPool& constants) {
  const std::vector<ValueId> written = graph::written_inputs(split_.rest);
  if (!written.empty()) written_.emplace(split_.rest, written, constants, DistinctInputs::Extent::kElements);
}

bool FrozenExecutable::is_up_to_date(PyObject* const* inputs) const {
  if (!values_) return false;
  for (size_t i = 0; i < frozen_.size(); ++i)
    if (!values_->inputs.holds(i, unpack_tensor(inputs[frozen_[i].input]))) return false;
  return true;
}

void FrozenExecutable::compute_once(PyObject* const* inputs) {
  auto values = std::make_shared<OnceValues>();
  // Before they are read: a write meanwhile shows in the next call.
  for (const FrozenInput& frozen : frozen_) values->inputs.add(unpack_tensor(inputs[frozen.input]), frozen.by_content);
  std::vector<at::Tensor> registers(once_.register_count());
  for (size_t i = 0; i < split_.inputs.size(); ++i)
    registers[split_.once.inputs()[i].index()] = unpack_tensor(inputs[split_.inputs[i]]);
  {
    AllowThreads no_gil;
    BelowAutograd below;
    once_.run(registers.data());
  }
  for (ValueId output : split_.once.outputs())
    values->tensors.push_back(Ref::steal(wrap_tensor(registers[once_.register_of(output)])));
  values_ = std::move(values);
  ++computed_in_process;
}

RunStatus FrozenExecutable::run(PyObject* const* inputs, PyObject** outputs) {
  std::shared_ptr<const OnceValues> values;  // stays while another thread computes newer ones
  Inputs all(inputs, inputs + captured_.inputs().size());
  const bool ready = with_translated_errors([&] {
    if (!is_up_to_date(inputs)) compute_once(inputs);
    values = values_;
    for (const Ref& tensor : values->tensors) all.push_back(tensor.get());
    TORCH_CHECK(!written_ || written_->hold([&](size_t i) -> const at::Tensor& { return unpack_tensor(all[i]); }),
                "a frozen parameter shares memory with what is written");
    return true;
  });
  return ready ? rest_->run(all.data(), outputs) : RunStatus::kUndone;
}

graph::PackedOps packed_ops() {
  auto id_of = [](const char* name) {
    const OpEntry* op = op_entry_by_name(name);
    return op ? op->id : graph::OpId();
  };
  graph::PackedOps ops{id_of("mkldnn::_reorder_convolution_weight"), id_of("mkldnn::_convolution_pointwise"),
                       id_of("mkldnn::_reorder_linear_weight"), id_of("mkldnn::_linear_pointwise")};
  if (!ops.pack_convolution.valid()) ops.convolution = {};
  if (!ops.pack_linear.valid()) ops.linear = {};
  return ops;
}

// Elsewhere numbers could not be compared without waiting for the device.
std::vector<bool> frozen_on_cpu(const graph::Capture& capture) {
  std::vector<bool> frozen = capture.frozen_inputs;
  for (size_t i = 0; i < frozen.size(); ++i)
    if (!capture.graph.meta(capture.graph.inputs()[i]).device.is_cpu()) frozen[i] = false;
  return frozen;
}

// By input: batch norm writes its statistics without counting that.
std::vector<bool> running_statistics(const graph::Graph& graph) {
  std::vector<bool> found(graph.inputs().size());
  for (size_t n = 0; n < graph.node_count(); ++n) {
    const graph::Node& node = graph.node(graph::NodeId(n));
    const graph::OpInfo& info = graph::op_info(node.op);
    if (node.erased || !info.has(graph::kOpWritesStatistics)) continue;
    for (size_t i = 0; i < node.operand_count; ++i)
      if (info.parsed.args[i].name.starts_with("running_") && node.arg(i).is_value()) {
        const graph::Value& value = graph.value(node.arg(i).as_value());
        if (value.is_input()) found[value.index] = true;
      }
  }
  return found;
}

uint64_t count_packed(const graph::Graph& once) {
  uint64_t count = 0;
  for (ValueId id : once.outputs()) count += once.meta(id).layout == graph::Layout::kMkldnn;
  return count;
}

// Values of the rest for those of the captured graph.
class NewValues {
 public:
  NewValues(const std::optional<graph::ChangedGraph>& packed, const graph::FrozenSplit& split)
      : packed_(packed), split_(split) {}
  ValueId operator()(ValueId captured) const {
    const ValueId id = packed_ ? packed_->values[captured.index()] : captured;
    return id.valid() ? split_.values[id.index()] : id;
  }

 private:
  const std::optional<graph::ChangedGraph>& packed_;
  const graph::FrozenSplit& split_;
};

}  // namespace

std::unique_ptr<runtime::Executable> make_frozen_executable(const graph::Capture& capture,
                                                            std::shared_ptr<Recording> recording,
                                                            OnFailure on_failure) {
  const graph::Graph& graph = capture.graph;
  if (!may_be_relaid(graph, *recording)) return nullptr;
  const std::vector<bool> may_be_frozen = frozen_on_cpu(capture);
  const std::optional<graph::ChangedGraph> packed = graph::pack_weights(
      graph, may_be_frozen, computes_with_onednn() ? packed_ops() : graph::PackedOps(), infer_environment());
  const graph::Graph& whole = packed ? packed->graph : graph;
  graph::FrozenSplit split = graph::split_frozen(whole, may_be_frozen);
  if (split.once.outputs().empty()) return nullptr;
  graph::eliminate_dead_code(split.rest);
  split.rest.compact();
  const NewValues now(packed, split);
  std::vector<OutputSpec> outputs = recording->outputs;
  for (OutputSpec& output : outputs) {
    output.value = now(output.value);
    if (!output.value.valid()) return nullptr;
  }
  const std::vector<bool> statistics = running_statistics(graph);
  std::vector<FrozenInput> frozen;
  for (uint32_t input : split.inputs) frozen.push_back({input, statistics[input]});
  packed_in_process += count_packed(split.once);
  std::swap(recording->outputs, outputs);
  return std::make_unique<FrozenExecutable>(graph, std::move(split), std::move(frozen), std::move(outputs),
                                            std::move(recording), on_failure);
}

FrozenStats frozen_stats() { return {computed_in_process, packed_in_process}; }

}  // namespace framejit::torchlib
