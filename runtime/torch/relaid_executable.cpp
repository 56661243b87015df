#include "runtime/torch/relaid_executable.h"

#include <optional>

#include "graph/passes/channels_last.h"
#include "runtime/torch/environment.h"
#include "runtime/torch/graph_object.h"
#include "runtime/torch/kernel_stats.h"
#include "runtime/torch/replaced_graph.h"

namespace framejit::torchlib {
namespace {

class RelaidExecutable final : public runtime::Executable {
 public:
  RelaidExecutable(const graph::Graph& captured, graph::Graph graph, std::vector<OutputSpec> outputs,
                   std::shared_ptr<Recording> recording, OnFailure on_failure)
      : captured_(captured), graph_(std::move(graph)), outputs_(std::move(outputs)), facts_(program_facts(*recording)) {
    program_ = make_aten_executable(graph_, std::move(recording), nullptr, on_failure, true, true);
  }

  size_t output_count() const override { return outputs_.size(); }
  Ref graph_object(std::vector<std::string> sources) const override {
    return copy_of_program(captured_, facts_, outputs_, std::move(sources));
  }
  runtime::RunStatus run(PyObject* const* inputs, PyObject** outputs) override {
    return program_->run(inputs, outputs);
  }

 private:
  const graph::Graph& captured_;  // the capture's, which lives as long
  const graph::Graph graph_;
  const std::vector<OutputSpec> outputs_;  // of the captured graph
  const ProgramFacts facts_;
  std::unique_ptr<runtime::Executable> program_;
};

}  // namespace

std::unique_ptr<runtime::Executable> make_relaid_executable(const graph::Capture& capture,
                                                            std::shared_ptr<Recording> recording,
                                                            OnFailure on_failure) {
  if (!may_be_replaced(capture.graph, *recording) || !computes_with_onednn()) return nullptr;
  std::optional<graph::RelaidGraph> relaid = graph::lay_out_channels_last(capture.graph, infer_environment());
  if (!relaid) return nullptr;
  std::vector<OutputSpec> outputs = recording->outputs;
  for (OutputSpec& output : outputs) {
    output.value = relaid->values[output.value.index()];
    if (!output.value.valid()) return nullptr;
  }
  std::swap(recording->outputs, outputs);
  count_relaid_graph();
  return std::make_unique<RelaidExecutable>(capture.graph, std::move(relaid->graph), std::move(outputs),
                                            std::move(recording), on_failure);
}

}  // namespace framejit::torchlib
