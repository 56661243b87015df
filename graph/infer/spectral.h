// Fourier transforms on the CPU, as oneMKL lays their results out.
#pragma once

#include "graph/infer/context.h"

namespace framejit::graph::infer {

InferStatus fft_c2c(InferContext& c);
InferStatus fft_r2c(InferContext& c);
InferStatus fft_c2r(InferContext& c);

}  // namespace framejit::graph::infer
