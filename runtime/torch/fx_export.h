// A graph as a torch.fx.GraphModule, put together by framejit/_fx.py.
#pragma once

#include <span>

#include "base/py_ref.h"
#include "graph/graph.h"
#include "runtime/torch/operands.h"

namespace framejit::torchlib {

// Returns a tuple of `outputs`, of which invalid ones are None. Null with a Python error. Runs Python.
Ref export_to_fx(const graph::Graph& graph, const ConstantPool& constants, std::span<const graph::ValueId> outputs);
// A list of real tensors that are like the inputs, their values not set.
Ref fx_examples(const graph::Graph& graph);

}  // namespace framejit::torchlib
