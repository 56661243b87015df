// The rows that tools/gen_ops.py makes from graph/ops/*.yaml. A row's index is the operator's OpId.
#pragma once

#include <cstdint>

#include "graph/infer.h"

namespace framejit::graph {

class InferContext;
using InferFunction = InferStatus (*)(InferContext&);

struct OpRow {
  const char* name;
  const char* schema;
  uint32_t flags;
  InferFunction infer;  // null: facts only
};

extern const OpRow kOpRows[];
extern const uint32_t kOpRowCount;

}  // namespace framejit::graph
