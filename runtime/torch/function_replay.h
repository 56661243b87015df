// A call of a torch.autograd.Function made anew: with the program's backward, over a forward that is operators.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "base/py_ref.h"
#include "graph/ids.h"

namespace framejit::torchlib {

class Plan;

struct FunctionRecord {
  struct Attribute {
    Ref name;
    graph::ValueId value;  // invalid: `plain` is what it is
    Ref plain;
  };
  Ref function, context_type;
  std::vector<graph::ValueId> arguments;  // invalid: no tensor
  std::vector<graph::ValueId> outputs;    // invalid: no tensor
  std::vector<bool> differentiated;       // beside outputs
  std::vector<graph::ValueId> saved;      // invalid: None
  std::vector<Attribute> attributes;      // of the context
  bool materializes = true, materializes_others = true;
};

// `forward` fills the registers. Those of the outputs have the call's history afterwards. Takes the GIL; throws.
void replay_function(const FunctionRecord& record, const Plan& plan, at::Tensor* registers,
                     const std::function<void()>& forward);

}  // namespace framejit::torchlib
