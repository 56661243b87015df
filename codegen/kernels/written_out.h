// Operators that kernels know and no expression tells: more than one result, more than one reduction, or operands along
// a dimension that does not broadcast.
#pragma once

#include "codegen/kernels/lower.h"
#include "codegen/kernels/lowering.h"

namespace framejit::codegen {

struct WrittenOut {
  graph::OpId op;
  FusedKind kind;
  size_t results;  // as many of them are computed; those behind are for its gradient
  bool (*fits)(const graph::Graph& graph, const graph::Node& node);
  void (*add)(const graph::Node& node, Lowering& lowering);
};

// Null where there is none.
const WrittenOut* written_out(graph::OpId op);

}  // namespace framejit::codegen
