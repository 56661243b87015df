#include "runtime/torch/graph_object.h"

#include "graph/control_flow.h"
#include "graph/number.h"
#include "runtime/torch/environment.h"
#include "runtime/torch/graph_recorder.h"
#include "runtime/torch/graph_type.h"

namespace framejit::torchlib {

ProgramFacts program_facts(const Recording& recording) {
  ProgramFacts facts{recording.recorder.constants(), infer_environment(), ""};
  if (recording.recorder.has_mixed_grad_mode())
    facts.why_no_fx = "grad mode changes inside of the captured code, which torch.fx cannot say";
  if (recording.recorder.graph().has_states())
    facts.why_no_fx =
        "inference mode or the default dtype changes inside of the captured code, which torch.fx cannot say";
  if (recording.recorder.graph().subgraph_count() > 0)
    facts.why_no_fx = "a branch or a loop is in the graph, which torch.fx cannot say";
  for (const OutputSpec& output : recording.outputs)
    if (output.data && facts.why_no_fx.empty())
      facts.why_no_fx = "an output is `.data` of a tensor, which torch.fx cannot say";
  return facts;
}

namespace {

// Promotion with such a tensor does not ask for the default dtype.
bool takes_floating(const graph::Graph& graph, const graph::Node& node) {
  bool takes = false;
  for (const graph::Operand& operand : node.args())
    graph::for_each_value(operand, [&](graph::ValueId id) {
      const graph::DType type = graph.meta(id).dtype;
      takes |= graph::is_floating(type) || graph::is_complex(type);
    });
  return takes;
}

// Whether some node may give something else under another default dtype than that of the capture.
bool depends_on_default_dtype(const graph::Graph& graph, const graph::InferEnvironment& at_capture) {
  if (graph.has_states()) return true;
  graph::InferEnvironment other = at_capture;
  other.default_dtype = other.default_dtype == graph::DType::kF32 ? graph::DType::kF64 : graph::DType::kF32;
  graph::InferOutput as_captured, otherwise;
  for (size_t n = 0; n < graph.node_count(); ++n) {
    const graph::Node& node = graph.node(graph::NodeId(n));
    if (node.erased || graph::op_name(node.op) == "framejit::constant") continue;
    if (graph::is_control_flow(node.op)) continue;  // its bodies are looked at below
    if (graph::find_number_op(node.op)) continue;
    const auto infer = [&](graph::InferOutput& out, const graph::InferEnvironment& environment) {
      return graph::infer_meta(node.op, node.args(), graph::MetaLookup(graph), out, environment) ==
             graph::InferStatus::kOk;
    };
    if (!infer(as_captured, at_capture) || !infer(otherwise, other)) {
      if (!takes_floating(graph, node)) return true;
      continue;
    }
    for (size_t i = 0; i < as_captured.size(); ++i)
      if (as_captured[i].meta.dtype != otherwise[i].meta.dtype) return true;
  }
  for (size_t i = 0; i < graph.subgraph_count(); ++i)
    if (depends_on_default_dtype(*graph.subgraph(graph::SubgraphId(i)), at_capture)) return true;
  return false;
}

void set_default_dtype(graph::Graph& graph, const graph::InferEnvironment& at_capture) {
  for (size_t n = 0; n < graph.node_count(); ++n) {
    graph::NodeState state = graph.node(graph::NodeId(n)).state;
    if (!state.default_dtype) state.default_dtype = at_capture.default_dtype;
    graph.set_state(graph::NodeId(n), state);
  }
}

}  // namespace

Ref copy_of_program(const graph::Graph& graph, const ProgramFacts& facts, const std::vector<OutputSpec>& outputs,
                    std::vector<std::string> sources) {
  auto copy = std::make_shared<BuiltGraph>(graph.clone());
  std::vector<graph::ValueId> values;
  values.reserve(outputs.size());
  for (const OutputSpec& output : outputs) values.push_back(output.value);
  copy->contents.set_outputs(values);
  copy->recorder->set_constants(facts.constants);
  if (depends_on_default_dtype(graph, facts.environment)) set_default_dtype(copy->contents, facts.environment);
  copy->sources = std::move(sources);
  copy->why_no_fx = facts.why_no_fx;
  return make_graph_object(std::move(copy));
}

}  // namespace framejit::torchlib
