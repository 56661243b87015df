#include "runtime/torch/kernel_stats.h"

#include <mutex>

namespace framejit::torchlib {

namespace {

struct Counted {
  std::mutex mutex;
  KernelStats stats;
};

// Never ended: kernels are made on any thread until the process ends.
Counted& counted() {
  static Counted* instance = new Counted;
  return *instance;
}

}  // namespace

void count_kernel(KernelOutcome outcome, double seconds, const std::string& failure) {
  std::lock_guard<std::mutex> lock(counted().mutex);
  KernelStats& stats = counted().stats;
  stats.compiled += outcome == KernelOutcome::kCompiled;
  stats.read += outcome == KernelOutcome::kRead;
  stats.shared += outcome == KernelOutcome::kShared;
  stats.failed += outcome == KernelOutcome::kFailed;
  stats.seconds += seconds;
  if (outcome == KernelOutcome::kFailed) stats.failure = failure;
}

void count(uint64_t KernelStats::*what, uint64_t number) {
  std::lock_guard<std::mutex> lock(counted().mutex);
  counted().stats.*what += number;
}

KernelStats kernel_stats() {
  std::lock_guard<std::mutex> lock(counted().mutex);
  return counted().stats;
}

}  // namespace framejit::torchlib
