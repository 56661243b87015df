// What element types hold of numbers.
#pragma once

#include "graph/dtype.h"
#include "graph/operand.h"

namespace framejit::graph {

// The finite numbers of a real type.
struct Range {
  double lowest, highest;
};
Range range_of(DType dtype);

// Whether c10::Scalar::to() makes an element of the number: it refuses what overflows. False too for numbers within one
// of an integer type's largest, of which releases differ, and for operands that are no number.
bool holds(DType dtype, const Operand& number);

}  // namespace framejit::graph
