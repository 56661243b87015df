// What a function of torch takes for a number of the graph in the place of a Scalar: a torch.SymFloat. LibTorch hands
// it on as it is; where its code looks at the number, the trace stops.
#pragma once

#include <ATen/core/ivalue.h>

#include "base/py_ref.h"
#include "graph/ids.h"

namespace framejit::torchlib {

// What the trace has for a number of the graph: C code may move it about, and ends the trace where it looks at it. Null
// with a Python error.
Ref make_number_object();

// Null with a Python error.
Ref make_number_scalar(graph::ValueId number);
// Invalid for all else.
graph::ValueId number_of_scalar(const c10::IValue& scalar);

}  // namespace framejit::torchlib
