#include "runtime/torch/replaced_executable.h"

#include <algorithm>
#include <optional>

#include "graph/passes/backward_inside.h"
#include "graph/passes/channels_last.h"
#include "graph/passes/drawn_masks.h"
#include "runtime/torch/computed_again.h"
#include "runtime/torch/environment.h"
#include "runtime/torch/graph_object.h"
#include "runtime/torch/kernel_stats.h"
#include "runtime/torch/replaced_graph.h"

namespace framejit::torchlib {
namespace {

class ReplacedExecutable final : public runtime::Executable {
 public:
  ReplacedExecutable(const graph::Graph& captured, graph::Graph graph, std::vector<OutputSpec> outputs,
                     std::shared_ptr<Recording> recording, OnFailure on_failure)
      : captured_(captured), graph_(std::move(graph)), outputs_(std::move(outputs)), facts_(program_facts(*recording)) {
    program_ = make_aten_executable(graph_, std::move(recording), nullptr, on_failure,
                                    {.kernels = true, .checks_first_run = true, .reads_elsewhere = true});
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

// The same of a graph and then of the one that was made of it.
void follow(std::vector<graph::ValueId>& values, const std::vector<graph::ValueId>& next) {
  for (graph::ValueId& value : values)
    if (value.valid()) value = next[value.index()];
}

std::optional<graph::ChangedGraph> with_less_kept(const graph::Graph& graph, const Recording& recording) {
  if (recording.backwards != 1) return std::nullopt;
  graph::Graph drawn = graph.clone();
  std::vector<graph::DrawnMask> masks;
  if (has_kernels_for_masks()) masks = graph::drawn_masks(drawn, drawn.outputs(), least_computed_again());
  graph::draw_as_booleans(drawn, masks);
  std::optional<graph::ChangedGraph> made =
      graph::recompute_in_backward(drawn, recording.first_backward, is_cheap_again, least_computed_again());
  if (!made) return std::nullopt;
  count(&KernelStats::recomputing);
  count(&KernelStats::masks, masks.size());
  return made;
}

std::optional<graph::ChangedGraph> with_images_relaid(const graph::Graph& graph) {
  std::optional<graph::ChangedGraph> relaid = graph::lay_out_channels_last(graph, infer_environment());
  if (!relaid || !std::all_of(graph.outputs().begin(), graph.outputs().end(),
                              [&](graph::ValueId output) { return relaid->values[output.index()].valid(); }))
    return std::nullopt;
  count(&KernelStats::relaid);
  return relaid;
}

// `recording` is of `graph`.
std::optional<graph::ChangedGraph> changed(const graph::Graph& graph, const Recording& recording) {
  if (!may_be_replaced(graph, recording)) return std::nullopt;
  std::optional<graph::ChangedGraph> again = with_less_kept(graph, recording);
  if (!may_be_relaid(graph, recording) || !computes_with_onednn()) return again;
  std::optional<graph::ChangedGraph> relaid = with_images_relaid(again ? again->graph : graph);
  if (!relaid) return again;
  if (again) {
    follow(again->values, relaid->values);
    std::swap(relaid->values, again->values);
  }
  return relaid;
}

}  // namespace

std::unique_ptr<runtime::Executable> make_replaced_executable(const graph::Capture& capture,
                                                              std::shared_ptr<Recording> recording,
                                                              OnFailure on_failure) {
  std::optional<graph::ChangedGraph> made = changed(capture.graph, *recording);
  if (!made) return nullptr;
  std::vector<OutputSpec> outputs = recording->outputs;  // of the captured graph
  for (OutputSpec& output : recording->outputs) output.value = made->values[output.value.index()];
  for (FreedRoot& root : recording->freed_roots) root.value = made->values[root.value.index()];
  recording->recorder.follow(made->values);
  return std::make_unique<ReplacedExecutable>(capture.graph, std::move(made->graph), std::move(outputs),
                                              std::move(recording), on_failure);
}

}  // namespace framejit::torchlib
