#include "runtime/torch/graph_object.h"

#include "runtime/torch/graph_recorder.h"
#include "runtime/torch/graph_type.h"

namespace framejit::torchlib {

ProgramFacts program_facts(const Recording& recording) {
  ProgramFacts facts{recording.recorder.constants(), {}, ""};
  facts.states.change(0, {std::nullopt, OperatorState::now().default_dtype});
  facts.states.append(recording.recorder.states());
  if (recording.recorder.has_mixed_grad_mode())
    facts.why_no_fx = "grad mode changes inside of the captured code, which torch.fx cannot say";
  if (!recording.recorder.states().empty())
    facts.why_no_fx =
        "inference mode or the default dtype changes inside of the captured code, which torch.fx cannot say";
  if (recording.recorder.graph().subgraph_count() > 0)
    facts.why_no_fx = "a branch or a loop is in the graph, which torch.fx cannot say";
  for (const OutputSpec& output : recording.outputs)
    if (output.data && facts.why_no_fx.empty())
      facts.why_no_fx = "an output is `.data` of a tensor, which torch.fx cannot say";
  return facts;
}

Ref copy_of_program(const graph::Graph& graph, const ProgramFacts& facts, const std::vector<OutputSpec>& outputs,
                    std::vector<std::string> sources) {
  auto copy = std::make_shared<BuiltGraph>(graph.clone());
  std::vector<graph::ValueId> values;
  values.reserve(outputs.size());
  for (const OutputSpec& output : outputs) values.push_back(output.value);
  copy->contents.set_outputs(values);
  copy->recorder->set_constants(facts.constants);
  copy->recorder->set_states(facts.states);
  copy->sources = std::move(sources);
  copy->why_no_fx = facts.why_no_fx;
  return make_graph_object(std::move(copy));
}

}  // namespace framejit::torchlib
