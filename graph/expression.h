// What an operator computes of each element, for kernels: the field `expr` of graph/ops/*.yaml as a graph of nodes that
// needs no parsing. Each node's operands stand before it and the last node is the result, so a generator makes one
// temporary of each node in order.
//
// The arguments are converted to the compute type first, which is the type that the inference rule promotes to, f32 for
// f16 and bf16; the result is converted to the result's type. An expression says itself for which compute types it
// holds; complex numbers are in none. An optional argument that is absent reads as 0, kHas tells.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "graph/ids.h"
#include "graph/tensor_meta.h"

namespace framejit::graph {

enum class ExpressionOp : uint8_t {
  kArgument,       // operand `index` of the operator: a number of each element, or one for all
  kTruthArgument,  // a bool among the operands
  kHas,            // whether operand `index` was given
  kTextIs,         // whether operand `index` is `text`
  kConstant,       // `value`
  kCount,          // how many elements are reduced to one
  kIsCuda,         // whether the result is on a CUDA device, whose kernels differ in a corner
  kIsOneDnns,      // whether LibTorch has oneDNN compute this, as operand `index` is
  kLosesInfinity,  // whether that has no number for the gelu of an infinity, as operand `index` is
  kSince,          // whether this is the release of torch in `value`, as set_torch_release() has it, or a later one
#define EXPRESSION(name, spelling, operands, result, types) k##name,
#define REDUCTION(name, spelling, operands, result, types) k##name,
#include "graph/expression.def"
#undef EXPRESSION
#undef REDUCTION
};

struct ExpressionNode {
  ExpressionOp op;
  bool truth;           // the node is a truth value
  int16_t operands[3];  // earlier nodes; -1 beyond the last
  int16_t index = -1;
  double value = 0;
  const char* text = nullptr;
};

enum ComputeType : uint8_t { kFloating = 1, kInteger = 2, kBoolean = 4 };

struct Expression {
  const ExpressionNode* nodes;
  uint16_t count;
  uint8_t types;  // ComputeType bits
  bool reduces;

  std::span<const ExpressionNode> all() const { return {nodes, count}; }
  const ExpressionNode& result() const { return nodes[count - 1]; }
  bool holds_for(ComputeType type) const { return (types & type) != 0; }
};

// Kernels of two releases may differ in a corner. 100 * major + minor; the newest until it is set.
void set_torch_release(int release);
bool is_torch_since(double release);

// LibTorch has oneDNN compute some operators of contiguous tensors on the CPU, of more than one element: `has_kernel`
// tells for which types, `loses_infinity` for which of them its gelu of an infinity is nan, as with AVX-512. For none
// until it is set.
void ask_of_onednn(bool (*has_kernel)(DType), bool (*loses_infinity)(DType));
bool is_onednns(const TensorMeta& tensor);
bool loses_infinity(const TensorMeta& tensor);

// Null where there is none.
const Expression* expression_of(OpId op);
// Why a pointwise operator has none, or null.
const char* why_no_expression(OpId op);
bool is_reduction(ExpressionOp op);
// What makes one of two values of a reduction.
constexpr ExpressionOp combining(ExpressionOp reduction) {
  switch (reduction) {
    case ExpressionOp::kProduct:
      return ExpressionOp::kMultiply;
    case ExpressionOp::kLargest:
      return ExpressionOp::kMaximum;
    case ExpressionOp::kSmallest:
      return ExpressionOp::kMinimum;
    case ExpressionOp::kAny:
      return ExpressionOp::kOr;
    case ExpressionOp::kAll:
      return ExpressionOp::kAnd;
    default:
      return ExpressionOp::kAdd;
  }
}
std::string_view spelling(ExpressionOp op);  // as in graph/expression.def; "argument", ... for the others
// The other facts of graph/expression.def; of leaves none and false.
std::string_view compute_types(ExpressionOp op);  // of 'f' and 'i'
bool gives_truth(ExpressionOp op);

// One argument of a call that is evaluated.
template <class T>
struct ExpressionArgument {
  bool given = false;
  std::span<const T> numbers;  // of each element, or one
  std::string_view text;
};

// The meaning of expressions, element by element: element `element` of `count`, of a reduction the whole. T is double
// or int64_t; truth values are 1 and 0. As on the CPU. For tests and for folding constants.
template <class T>
T evaluate(const Expression& expression, std::span<const ExpressionArgument<T>> arguments, size_t element,
           size_t count);

}  // namespace framejit::graph
