#include "runtime/torch/computed_again.h"

#include <atomic>

#include "codegen/kernels/lower.h"
#include "graph/stepped.h"
#include "runtime/torch/environment.h"
#include "runtime/torch/kernel_library.h"

namespace framejit::torchlib {
namespace {

std::atomic<int64_t> least_bytes = 64 * 1024;

}  // namespace

bool is_cheap_again(const graph::Graph& graph, const graph::Node& node) {
  if (graph::is_stepped(node)) return false;
  if (codegen::fused_kind(graph, node) == codegen::FusedKind::kNone) return false;
  return !graph.meta(node.result()).device.is_cpu() || why_no_kernels().empty();
}

bool has_kernels_for_masks() {
  return why_no_kernels().empty() && infer_environment().default_dtype == graph::DType::kF32;
}

int64_t least_computed_again() { return least_bytes; }
int64_t set_least_computed_again(int64_t bytes) { return least_bytes.exchange(bytes); }

}  // namespace framejit::torchlib
