// Operators that make tensors from sizes and numbers, and copies.
#pragma once

#include "graph/infer/context.h"

namespace framejit::graph::infer {

// Operand positions of a factory with an explicit size; -1 where absent.
struct FactoryRule {
  int8_t size = -1;
  int8_t dtype = -1;
  int8_t layout = -1;
  int8_t device = -1;
  int8_t memory_format = -1;
  int8_t strides = -1;    // empty_strided
  int8_t like = -1;       // new_*: dtype and device of this operand unless given
  int8_t fill = -1;       // full: the type follows the value
  bool integers = false;  // randint: i64 unless given
};
InferStatus factory(InferContext& c, const FactoryRule& rule);

// *_like: sizes and (unless a memory format says otherwise) strides of operand 0.
struct LikeRule {
  int8_t dtype = -1;
  int8_t layout = -1;
  int8_t device = -1;
  int8_t memory_format = -1;
};
InferStatus like(InferContext& c, const LikeRule& rule);

InferStatus clone(InferContext& c);
InferStatus to_copy(InferContext& c);
// Operand positions: start and step may be absent (0 and 1); layout and device follow dtype.
struct ArangeRule {
  int8_t start = -1;
  int8_t end = -1;
  int8_t step = -1;
  int8_t dtype = -1;
};
InferStatus arange(InferContext& c, const ArangeRule& rule);
InferStatus linspace(InferContext& c);
InferStatus scalar_tensor(InferContext& c);
InferStatus eye(InferContext& c);
InferStatus eye_m(InferContext& c);
InferStatus randperm(InferContext& c);
InferStatus bernoulli(InferContext& c);
InferStatus triangle(InferContext& c);  // matrices: shape and type of operand 0, contiguous
InferStatus diag_embed(InferContext& c);
InferStatus same_preserved(InferContext& c);   // as empty_like
InferStatus same_contiguous(InferContext& c);  // shape and type of operand 0
InferStatus scattered(InferContext& c);        // a copy of operand 0 in its strides and place, holes included
InferStatus normal_of_mean(InferContext& c);
InferStatus normal_of_std(InferContext& c);
InferStatus normal_of_both(InferContext& c);
InferStatus pin_memory(InferContext& c);

}  // namespace framejit::graph::infer
