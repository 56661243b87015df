// Layer, batch and group norm.
#pragma once

#include "graph/infer/context.h"

namespace framejit::graph::infer {

InferStatus native_layer_norm(InferContext& c);
InferStatus native_layer_norm_backward(InferContext& c);
InferStatus native_batch_norm(InferContext& c);
InferStatus batch_norm_no_stats(InferContext& c);
InferStatus batch_norm_with_update(InferContext& c);
InferStatus native_batch_norm_backward(InferContext& c);
InferStatus native_group_norm(InferContext& c);
InferStatus native_group_norm_backward(InferContext& c);

}  // namespace framejit::graph::infer
