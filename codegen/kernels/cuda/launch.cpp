#include "codegen/kernels/cuda/launch.h"

#include <algorithm>
#include <bit>

#include "codegen/kernels/cuda/source.h"

namespace framejit::codegen {

namespace {

constexpr int64_t kMostBlocks = 1 << 16;  // each takes more than one element or row then
constexpr int64_t kLeastWidth = 32;       // threads that run as one

int64_t blocks_of(int64_t items, int64_t per_block) { return (items + per_block - 1) / per_block; }

}  // namespace

bool make_cuda_launch(const Kernel& kernel, const Loop& loop, CudaLaunch* launch, std::string* why_not) {
  const bool by_rows = has_reductions(kernel);
  const int64_t count = by_rows ? loop.rows() : loop.rows() * loop.row();
  std::vector<int64_t>& arguments = launch->arguments;
  arguments.assign(1, count);
  arguments.resize(1 + kernel.buffers.size());
  arguments.insert(arguments.end(), loop.sizes.begin(), loop.sizes.end());
  for (const std::vector<int64_t>& strides : loop.strides)
    arguments.insert(arguments.end(), strides.begin(), strides.end());
  if (arguments.size() > kMostCudaArguments) {
    *why_not = "more buffers than a launch on a CUDA device takes";
    return false;
  }
  constexpr int64_t kThreads = kCudaThreads;
  const auto row = static_cast<uint64_t>(loop.row());
  const int64_t width =
      by_rows ? std::clamp(static_cast<int64_t>(std::bit_ceil(row)), kLeastWidth, kThreads) : kThreads;
  const int64_t lines = kThreads / width;
  launch->width = static_cast<unsigned>(width);
  launch->lines = by_rows ? static_cast<unsigned>(lines) : 1;
  launch->blocks = static_cast<unsigned>(std::min(kMostBlocks, blocks_of(count, by_rows ? lines : kThreads)));
  return true;
}

}  // namespace framejit::codegen
