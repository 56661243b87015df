// Convolution, pooling, resampling and padding.
#pragma once

#include "graph/infer/context.h"

namespace framejit::graph::infer {

InferStatus convolution(InferContext& c);
InferStatus convolution_backward(InferContext& c);
InferStatus max_pool2d_with_indices(InferContext& c);
InferStatus avg_pool2d(InferContext& c);
// grad_output, self, ...: a gradient of the shape of self in its memory format.
InferStatus backward_like_input(InferContext& c);
InferStatus adaptive_avg_pool2d(InferContext& c);
InferStatus adaptive_max_pool2d(InferContext& c);
InferStatus max_unpool2d(InferContext& c);
InferStatus constant_pad_nd(InferContext& c);
InferStatus upsample2d(InferContext& c);
InferStatus upsample2d_backward(InferContext& c);
InferStatus upsample_bicubic2d_backward(InferContext& c);
InferStatus reflection_pad(InferContext& c);
InferStatus replication_pad(InferContext& c);
InferStatus channel_shuffle(InferContext& c);
InferStatus im2col(InferContext& c);
InferStatus col2im(InferContext& c);

}  // namespace framejit::graph::infer
