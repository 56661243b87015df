// What became of the kernels that this process asked for, whatever they run on.
#pragma once

#include <cstdint>
#include <string>

namespace framejit::torchlib {

struct KernelStats {
  uint64_t compiled = 0;
  uint64_t read = 0;    // from disk
  uint64_t shared = 0;  // asked for again
  uint64_t failed = 0;
  uint64_t relaid = 0;       // graphs whose convolutions compute channels last
  uint64_t recomputing = 0;  // graphs with a backward inside that computes again what it reads
  uint64_t masks = 0;        // of dropout, that graphs draw as booleans
  uint64_t drawn = 0;        // tensors of random numbers that no kernel of LibTorch drew
  uint64_t multiplied = 0;   // matrix products that LibTorch's BLAS did not do
  uint64_t convolved = 0;    // depthwise convolutions and their gradients that no kernel of LibTorch computed
  double seconds = 0;        // of compiling and reading
  std::string failure;       // the last
};

enum class KernelOutcome : uint8_t { kCompiled, kRead, kShared, kFailed };

// Any thread.
void count_kernel(KernelOutcome outcome, double seconds = 0, const std::string& failure = {});
void count(uint64_t KernelStats::*what, uint64_t number = 1);
KernelStats kernel_stats();

}  // namespace framejit::torchlib
