#include "runtime/torch/heap.h"

#include <cstdlib>
#include <string_view>

namespace framejit::torchlib {
namespace {

constexpr int64_t kLarge = int64_t{128} << 10;              // the smallest block that is given back: M_MMAP_THRESHOLD
constexpr size_t kMost = (size_t{32} << 20) - (64u << 10);  // the largest that it learns from, with its header

bool is_wanted() {
  const char* chosen = std::getenv("FRAMEJIT_KEEP_MEMORY");
  return !chosen || std::string_view(chosen) != "0";
}

bool raise_thresholds() {
  if (!is_wanted()) return false;
  void* volatile block = std::malloc(kMost);  // volatile: a compiler may leave the pair out
  std::free(block);
  return true;
}

bool is_large(const graph::TensorMeta& meta) {
  return meta.defined() && meta.device.is_cpu() && meta.numel() * graph::itemsize(meta.dtype) >= kLarge;
}

}  // namespace

void keep_freed_memory_for(const graph::Graph& graph) {
  for (size_t n = 0; n < graph.node_count(); ++n) {
    const graph::Node& node = graph.node(graph::NodeId(static_cast<uint32_t>(n)));
    for (size_t i = 0; !node.erased && i < node.result_count; ++i)
      if (is_large(graph.meta(node.result(i)))) {
        static const bool raised = raise_thresholds();
        return static_cast<void>(raised);
      }
  }
}

}  // namespace framejit::torchlib
