// Reading and writing at indices, and joining tensors.
#pragma once

#include "graph/infer/context.h"

namespace framejit::graph::infer {

InferStatus embedding(InferContext& c);
InferStatus embedding_bag(InferContext& c);
InferStatus embedding_bag_forward_only(InferContext& c);
InferStatus embedding_backward(InferContext& c);
InferStatus index(InferContext& c);
InferStatus index_select(InferContext& c);
InferStatus gather(InferContext& c);
InferStatus index_add(InferContext& c);
InferStatus index_add_inplace(InferContext& c);
InferStatus scatter(InferContext& c);  // out of place: the shape of operand 0
InferStatus cat(InferContext& c);
InferStatus stack(InferContext& c);
InferStatus repeat(InferContext& c);
InferStatus flip(InferContext& c);
InferStatus roll(InferContext& c);
InferStatus slice_backward(InferContext& c);  // grad, input_sizes, ...: fresh zeros with a part filled
InferStatus unfold_backward(InferContext& c);
InferStatus nll_loss_forward(InferContext& c);
InferStatus nll_loss_backward(InferContext& c);
InferStatus nll_loss2d_forward(InferContext& c);  // self: N, C, H, W; target: N, H, W
InferStatus weight_norm(InferContext& c);
// A loss with a reduction operand: 0 none, 1 mean, 2 sum.
InferStatus pointwise_loss(InferContext& c);
InferStatus pointwise_loss_backward(InferContext& c);
InferStatus huber_loss(InferContext& c);
InferStatus binary_cross_entropy_backward(InferContext& c);
InferStatus log_sigmoid_forward(InferContext& c);

}  // namespace framejit::graph::infer
