// Functions of numbers that kernels call: vector functions of Sleef, which LibTorch exports and its own kernels call,
// so that a kernel's numbers are theirs.
#pragma once

#include <string>

#include "graph/dtype.h"
#include "graph/expression.h"

namespace framejit::codegen {

struct VectorFunction {
  std::string name;  // empty: there is none
  unsigned lanes;
};

// `wide`: of AVX-512.
VectorFunction vector_function(graph::ExpressionOp op, graph::DType type, bool wide);

}  // namespace framejit::codegen
