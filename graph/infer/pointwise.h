// Operators that run one elementwise iterator.
#pragma once

#include <array>
#include <cstdint>

#include "graph/infer/context.h"

namespace framejit::graph::infer {

enum class Promote : uint8_t {
  kCommon,      // the common type of the inputs
  kIntToFloat,  // as kCommon, integers become the default float type
  kBool,        // inputs must promote, the result is bool
  kFirst,       // the type of the first input, the others are not looked at
  kReal,        // as kFirst, a complex type becomes its real one (abs, real, ...)
};

// Which operands promote, and which the iterator walks over. Scalars among them are wrapped numbers.
struct PointwiseRule {
  std::array<int8_t, 6> promote_args = {-1, -1, -1, -1, -1, -1};
  std::array<int8_t, 6> iterate_args = {-1, -1, -1, -1, -1, -1};
  Promote promote = Promote::kCommon;
  bool contiguous = false;  // the result is contiguous whatever the inputs
  bool no_bool = false;     // refuses bool
};

InferStatus pointwise(InferContext& c, const PointwiseRule& rule);
// The result is operand 0, to which the others must broadcast.
InferStatus pointwise_inplace(InferContext& c, const PointwiseRule& rule);
// The first operand is returned as it is: fill_, zero_, copy_, random in-place operators.
InferStatus returns_self(InferContext& c);
// A complex argument makes its real result by empty_like, any other by the iterator.
InferStatus abs(InferContext& c);
InferStatus copy_(InferContext& c);
// div.Tensor_mode: true division promotes to float, the rounding modes do not.
InferStatus div_mode(InferContext& c);
InferStatus div_mode_inplace(InferContext& c);
// Refuses bool, which the operator does not take.
InferStatus subtract(InferContext& c);
InferStatus subtract_inplace(InferContext& c);
InferStatus pow_scalar_base(InferContext& c);
InferStatus angle(InferContext& c);
InferStatus complex_of_parts(InferContext& c);
InferStatus native_dropout_backward(InferContext& c);
InferStatus where(InferContext& c);
InferStatus masked_fill(InferContext& c);
InferStatus masked_fill_inplace(InferContext& c);
InferStatus gelu(InferContext& c);
InferStatus gelu_inplace(InferContext& c);
InferStatus softshrink(InferContext& c);
// The fused dropout of CUDA: result and mask.
InferStatus native_dropout(InferContext& c);
// self, ... -> output, where the range did not clip it
InferStatus fake_quantize_cachemask(InferContext& c);
InferStatus glu(InferContext& c);
InferStatus glu_backward(InferContext& c);
InferStatus ldexp(InferContext& c);

}  // namespace framejit::graph::infer
