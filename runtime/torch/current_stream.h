// LibTorch's current streams, without its CUDA libraries.
#pragma once

namespace framejit::torchlib {

// The CUstream that is the thread's current one of the CUDA device. Throws. May take the GIL.
void* current_stream(int device);

}  // namespace framejit::torchlib
