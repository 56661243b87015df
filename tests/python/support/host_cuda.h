// What CUDA text needs beside C++ to be compiled for the host: tests/python/support/fake_cuda.cpp runs what comes out.
#pragma once

#include <math.h>

#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(threads)

struct Place {
  unsigned x, y, z;
};

extern "C" {
Place threadIdx, blockIdx, blockDim, gridDim;
void (*wait_for_block)();
}

inline void __syncthreads() { wait_for_block(); }
