// Operators that draw in place: each looks at the parameters of its distribution before it draws.
#pragma once

#include "graph/infer/context.h"

namespace framejit::graph::infer {

InferStatus normal_inplace(InferContext& c);
InferStatus log_normal_inplace(InferContext& c);
InferStatus cauchy_inplace(InferContext& c);
InferStatus uniform_inplace(InferContext& c);
InferStatus exponential_inplace(InferContext& c);
InferStatus geometric_inplace(InferContext& c);
InferStatus bernoulli_inplace(InferContext& c);
InferStatus bernoulli_p(InferContext& c);  // makes its result
InferStatus random_from_inplace(InferContext& c);
InferStatus random_to_inplace(InferContext& c);

}  // namespace framejit::graph::infer
