// Matrix products, and attention.
#pragma once

#include "graph/infer/context.h"

namespace framejit::graph::infer {

InferStatus mm(InferContext& c);
InferStatus bmm(InferContext& c);
InferStatus addmm(InferContext& c);
InferStatus baddbmm(InferContext& c);
InferStatus mv(InferContext& c);
InferStatus dot(InferContext& c);
InferStatus linalg_eig(InferContext& c);
InferStatus flash_attention_cpu(InferContext& c);
InferStatus flash_attention_cpu_backward(InferContext& c);
// What torch.nn's attention and its encoder layers call where nothing is to be differentiated.
InferStatus native_multi_head_attention(InferContext& c);
InferStatus transformer_encoder_layer(InferContext& c);

}  // namespace framejit::graph::infer
