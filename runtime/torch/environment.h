// The facts of this process that results of operators depend on.
#pragma once

#include "graph/infer.h"

namespace framejit::torchlib {

graph::InferEnvironment infer_environment();

// Whether LibTorch has oneDNN compute what it can of contiguous tensors of this type on the CPU.
bool has_onednn_kernel(graph::DType dtype);
// Whether its gelu of an infinity is nan there. LibTorch's own is right, and oneDNN's is without AVX-512.
bool gelu_loses_infinity(graph::DType dtype);

}  // namespace framejit::torchlib
