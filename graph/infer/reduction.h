// Operators that reduce dimensions. Their results are contiguous whatever the input's layout.
#pragma once

#include <cstdint>

#include "graph/infer/context.h"

namespace framejit::graph::infer {

enum class ReduceType : uint8_t {
  kSame,      // the input's type
  kSum,       // integers become i64
  kFloat,     // the input must be floating or complex
  kPromoted,  // integers become the default type
  kReal,      // as kFloat, a complex type becomes its real one (norms, var)
  kBool,      // u8 stays, all else becomes bool
  kIndex,     // i64
};

// Operand positions; -1 where the operator has no such argument.
struct ReduceRule {
  int8_t dim = -1;  // int, int[] or None; no argument: all dimensions
  int8_t keepdim = -1;
  int8_t dtype = -1;
  ReduceType type = ReduceType::kSame;
  bool with_indices = false;     // a second result, i64: max.dim, median.dim
  bool needs_elements = false;   // no identity: reducing an empty dimension is an error
  bool empty_dims_keep = false;  // an empty list reduces nothing rather than everything
  bool one_dim = false;          // `dim` is an int
};

InferStatus reduce(InferContext& c, const ReduceRule& rule);
// softmax-like and scan-like: the input's shape, contiguous.
struct ScanRule {
  int8_t dtype = -1;
  bool preserve = false;      // strides as empty_like gives them, else contiguous
  bool integers_sum = false;  // integers become i64
};
InferStatus scan(InferContext& c, const ScanRule& rule);
InferStatus kthvalue(InferContext& c);
InferStatus softmax(InferContext& c);
// Of rows that are all -inf, zeros.
InferStatus safe_softmax(InferContext& c);
InferStatus softmax_backward(InferContext& c);
InferStatus var_mean(InferContext& c);
InferStatus sort(InferContext& c);
InferStatus sort_stable(InferContext& c);
InferStatus topk(InferContext& c);
InferStatus aminmax(InferContext& c);

}  // namespace framejit::graph::infer
