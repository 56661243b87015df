// The data of tensors that are the same on each call. A program that asks for it gets the answer without a break:
// `if (torch.ones(3) == 1).all():`.
#pragma once

#include <ATen/core/Tensor.h>

#include "graph/graph.h"
#include "runtime/torch/operands.h"

namespace framejit::torchlib {

// Computed by the operators themselves, below autograd. Undefined where the value is not a constant, or takes more
// memory than a capture should.
at::Tensor known_value(const graph::Graph& graph, graph::ValueId value, const ConstantPool& constants);

}  // namespace framejit::torchlib
