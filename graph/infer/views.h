// Operators whose results share storage with operand 0.
#pragma once

#include "graph/infer/context.h"

namespace framejit::graph::infer {

// at::detail::computeStride: strides of `shape` over the same storage, or false when it needs a copy.
bool view_strides(const TensorMeta& self, const DimVector& shape, DimVector& strides);

InferStatus alias(InferContext& c);  // detach, alias: same sizes and strides
InferStatus view(InferContext& c);
InferStatus unsafe_view(InferContext& c);
InferStatus reshape_alias(InferContext& c);
InferStatus expand(InferContext& c);
InferStatus permute(InferContext& c);
InferStatus transpose(InferContext& c);
InferStatus t(InferContext& c);
InferStatus slice(InferContext& c);
InferStatus select(InferContext& c);
InferStatus unsqueeze(InferContext& c);
InferStatus squeeze(InferContext& c);
InferStatus squeeze_dim(InferContext& c);
InferStatus squeeze_dims(InferContext& c);
InferStatus unbind(InferContext& c);
InferStatus split(InferContext& c);
InferStatus split_with_sizes(InferContext& c);
InferStatus as_strided(InferContext& c);
InferStatus as_strided_inplace(InferContext& c);
// In place on sizes and strides: the result is operand 0 with the view's meta.
InferStatus transpose_inplace(InferContext& c);
InferStatus t_inplace(InferContext& c);
InferStatus unsqueeze_inplace(InferContext& c);
InferStatus squeeze_inplace(InferContext& c);
InferStatus squeeze_dim_inplace(InferContext& c);
InferStatus diagonal(InferContext& c);
InferStatus unfold(InferContext& c);
InferStatus view_as_real(InferContext& c);
InferStatus view_as_complex(InferContext& c);

}  // namespace framejit::graph::infer
