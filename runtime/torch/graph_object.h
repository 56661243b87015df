// The Python type framejit.Graph, and what a captured graph needs to become one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/py_ref.h"
#include "runtime/torch/built_graph.h"
#include "runtime/torch/recording.h"

namespace framejit::torchlib {

// Of a recording, for as long as its executable lives.
struct ProgramFacts {
  ConstantPool constants;
  graph::InferEnvironment environment;
  std::string why_no_fx;  // what torch.fx cannot say of it, or empty
};
ProgramFacts program_facts(const Recording& recording);

Ref copy_of_program(const graph::Graph& graph, const ProgramFacts& facts, const std::vector<OutputSpec>& outputs,
                    std::vector<std::string> sources);

}  // namespace framejit::torchlib
