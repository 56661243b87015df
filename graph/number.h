// Python numbers of a graph: floats that came out of a tensor (`x.item()`) or that the graph takes as inputs, and what
// the program made of them. A value with number_meta(): as a tensor it is what LibTorch makes of a Python float; in the
// place of a Scalar it is the number.
//
//   framejit::number_item(Tensor a) -> Tensor                one element of a floating type
//   framejit::number_add(Tensor a, Tensor b) -> Tensor       and so on: graph/number.def
//
// They compute as CPython's float does, to the bit (Objects/floatobject.c, Modules/mathmodule.c).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "graph/op.h"
#include "graph/tensor_meta.h"

namespace framejit::graph {

enum class NumberOp : uint8_t {
  kItem,
#define NUMBER(name, spelling, operands, raises) k##name,
#include "graph/number.def"
#undef NUMBER
};

OpId number_op(NumberOp op);
std::optional<NumberOp> find_number_op(OpId op);
size_t number_operand_count(NumberOp op);

// Of kItem it is `a`. None where CPython raises, or gives what is no float.
std::optional<double> compute_number(NumberOp op, double a, double b);

TensorMeta number_meta();

// What comparing a number with another gave: `op` as Py_LT and the like.
struct NumberComparison {
  int op;
  bool outcome;

  uint64_t packed() const { return static_cast<uint64_t>(op) * 2 + outcome; }
  static NumberComparison unpacked(uint64_t packed) { return {static_cast<int>(packed / 2), packed % 2 != 0}; }
};
// As CPython compares floats.
bool compare_numbers(int op, double a, double b);
const char* comparison_sign(int op);
std::string to_string(NumberComparison comparison, const std::string& other);

// What a number goes through on its way to a Scalar of an operator on elements of that type; none: nothing is lost.
std::optional<NumberOp> fit_op(DType elements);

}  // namespace framejit::graph
