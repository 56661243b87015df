#include "runtime/torch/body_recorder.h"

#include "base/check.h"
#include "graph/control_flow.h"
#include "graph/split.h"
#include "runtime/torch/fake_tensor.h"

namespace framejit::torchlib {

using graph::Operand;
using graph::ValueId;

namespace {

// Stands for the parameters until the body is cut out.
graph::OpId parameters_op() {
  static const graph::OpId op = graph::intern_op("framejit::parameters", "framejit::parameters() -> Tensor[]");
  return op;
}

std::vector<graph::ResultMeta> results_of(const std::vector<graph::TensorMeta>& metas) {
  std::vector<graph::ResultMeta> results(metas.size());
  for (size_t i = 0; i < metas.size(); ++i) {
    results[i].meta = metas[i];
    results[i].meta.requires_grad = false;
  }
  return results;
}

std::vector<at::Tensor> fakes_of(Recorder& recorder, graph::NodeId id) {
  const graph::Node node = recorder.graph().node(id);
  std::vector<at::Tensor> fakes;
  for (size_t i = 0; i < node.result_count; ++i) fakes.push_back(recorder.add_result(node.result(i)));
  return fakes;
}

const char* why_not_output(const Recorder& recorder, const at::Tensor& output) {
  FakeImpl* fake = fake_impl(output);
  if (!fake || fake->owner() != &recorder) return "an output is no tensor of this capture";
  if (output.requires_grad()) return "a gradient would go through it";
  return fake->is_copy() ? "an output is `.data` of a tensor" : nullptr;
}

}  // namespace

std::vector<at::Tensor> BodyRecorder::begin(Recorder& recorder, const std::vector<at::Tensor>& like) {
  std::vector<ValueId> values;
  values.reserve(like.size());
  for (const at::Tensor& fake : like) values.push_back(fake_impl(fake)->value());
  return begin(recorder, values);
}

std::vector<at::Tensor> BodyRecorder::begin(Recorder& recorder, const std::vector<ValueId>& like) {
  graph::Graph& graph = recorder.graph();
  Mark& mark = open_.emplace_back(Mark{graph.node_count(), graph.value_count(), {}});
  if (like.empty()) return {};
  std::vector<graph::TensorMeta> metas;
  metas.reserve(like.size());
  for (ValueId value : like) metas.push_back(graph.meta(value));
  const graph::NodeId node = graph.add_node(parameters_op(), {}, results_of(metas), recorder.location());
  for (size_t i = 0; i < metas.size(); ++i) mark.parameters.push_back(graph.node(node).result(i));
  return fakes_of(recorder, node);
}

// Erased, not truncated: inputs that the body was the first to read stay.
void BodyRecorder::erase(Recorder& recorder, const Mark& mark) {
  graph::Graph& graph = recorder.graph();
  for (size_t n = mark.node_count; n < graph.node_count(); ++n) graph.erase(graph::NodeId(n));
  recorder.forget_values_from(ValueId(mark.value_count));
}

void BodyRecorder::drop(Recorder& recorder) {
  FJ_CHECK(!open_.empty(), "a body ends that did not begin");
  erase(recorder, open_.back());
  open_.pop_back();
}

bool BodyRecorder::end(Recorder& recorder, const std::vector<at::Tensor>& outputs, std::string* why_not) {
  FJ_CHECK(!open_.empty(), "a body ends that did not begin");
  const Mark mark = std::move(open_.back());
  open_.pop_back();
  graph::Graph& graph = recorder.graph();
  std::vector<ValueId> values;
  for (const at::Tensor& output : outputs) {
    if (const char* why = why_not_output(recorder, output)) return *why_not = why, false;
    values.push_back(fake_impl(output)->value());
  }
  graph::Split split = graph::split_off(graph, {.name = "body",
                                                .first_node = mark.node_count,
                                                .first_value = mark.value_count,
                                                .parameters = mark.parameters,
                                                .outputs = values});
  erase(recorder, mark);
  if (auto why = graph::why_not_body(split.graph)) return *why_not = *why, false;
  Body& body = ended_.emplace_back();
  for (ValueId id : split.graph.outputs()) body.outputs.push_back(split.graph.meta(id));
  body.captured = std::move(split.captured);
  split.graph.set_name(fmt::format("body.{}", graph.subgraph_count() + ended_.size() - 1));
  body.graph = std::make_shared<const graph::Graph>(std::move(split.graph));
  return true;
}

std::pair<BodyRecorder::Body, BodyRecorder::Body> BodyRecorder::take_two() {
  FJ_CHECK(ended_.size() >= 2, "expected two bodies, got {}", ended_.size());
  Body second = std::move(ended_.back());
  ended_.pop_back();
  Body first = std::move(ended_.back());
  ended_.pop_back();
  return {std::move(first), std::move(second)};
}

std::vector<at::Tensor> BodyRecorder::add_node(Recorder& recorder, graph::OpId op, std::span<const Operand> operands,
                                               const std::vector<graph::TensorMeta>& kinds, std::string* why_not) {
  graph::Graph& graph = recorder.graph();
  const graph::NodeId id = graph.add_node(op, operands, results_of(kinds), recorder.location());
  if (auto why = graph::why_not_control_flow(graph, graph.node(id))) {
    graph.erase(id);
    *why_not = *why;
    return {};
  }
  return fakes_of(recorder, id);
}

std::vector<at::Tensor> BodyRecorder::cond(Recorder& recorder, const at::Tensor& predicate, std::string* why_not) {
  auto [then, otherwise] = take_two();
  graph::Graph& graph = recorder.graph();
  const Operand operands[] = {Operand::value(fake_impl(predicate)->value()),
                              Operand::subgraph(graph.add_subgraph(then.graph)),
                              Operand::subgraph(graph.add_subgraph(otherwise.graph)), Operand::values(then.captured),
                              Operand::values(otherwise.captured)};
  return add_node(recorder, graph::cond_op(), operands, then.outputs, why_not);
}

std::vector<at::Tensor> BodyRecorder::while_loop(Recorder& recorder, const std::vector<at::Tensor>& carried,
                                                 std::string* why_not) {
  auto [test, body] = take_two();
  graph::Graph& graph = recorder.graph();
  std::vector<ValueId> values;
  for (const at::Tensor& fake : carried) {
    values.push_back(fake_impl(fake)->value());
    // A loop that runs no times gives copies, which are dense.
    if (!graph.meta(values.back()).is_non_overlapping_and_dense()) {
      *why_not = "a carried tensor has gaps";
      return {};
    }
  }
  const Operand operands[] = {Operand::subgraph(graph.add_subgraph(test.graph)),
                              Operand::subgraph(graph.add_subgraph(body.graph)), Operand::values(values),
                              Operand::values(test.captured), Operand::values(body.captured)};
  return add_node(recorder, graph::while_loop_op(), operands, body.outputs, why_not);
}

}  // namespace framejit::torchlib
