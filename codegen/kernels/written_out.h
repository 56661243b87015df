// Operators that kernels know and no expression tells: more than one result, more than one reduction, or operands along
// a dimension that does not broadcast.
#pragma once

#include "codegen/kernels/loop.h"
#include "codegen/kernels/lower.h"
#include "codegen/kernels/lowering.h"

namespace framejit::codegen {

// Elements from which calls cost less than what a kernel saves.
constexpr int64_t kManyElements = 1024;

struct WrittenOut {
  graph::OpId op;
  Dims (*row)(const graph::TensorMeta& meta);  // what of its first argument is one; null if it is elementwise
  size_t results;  // as many of them are computed, where they are asked for; those behind are for its gradient
  int64_t alone;   // elements from which it is faster than LibTorch's operator even where nothing joins it
  bool (*fits)(const graph::Graph& graph, const graph::Node& node);
  void (*add)(const graph::Node& node, Lowering& lowering);
};

// The row that fits the node, or null.
const WrittenOut* written_out(const graph::Graph& graph, const graph::Node& node);

}  // namespace framejit::codegen
