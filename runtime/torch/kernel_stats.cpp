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

void count_relaid_graph() {
  std::lock_guard<std::mutex> lock(counted().mutex);
  ++counted().stats.relaid;
}

void count_recomputing_graph() {
  std::lock_guard<std::mutex> lock(counted().mutex);
  ++counted().stats.recomputing;
}

void count_drawn_tensor() {
  std::lock_guard<std::mutex> lock(counted().mutex);
  ++counted().stats.drawn;
}

void count_product() {
  std::lock_guard<std::mutex> lock(counted().mutex);
  ++counted().stats.multiplied;
}

KernelStats kernel_stats() {
  std::lock_guard<std::mutex> lock(counted().mutex);
  return counted().stats;
}

}  // namespace framejit::torchlib
