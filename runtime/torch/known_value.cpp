#include "runtime/torch/known_value.h"

#include "graph/constant_slice.h"
#include "runtime/torch/plan.h"

namespace framejit::torchlib {
namespace {

constexpr int64_t kMostElements = 1 << 22;

int64_t elements_of(const graph::Graph& graph, const std::vector<bool>& slice) {
  int64_t count = 0;
  for (size_t n = 0; n < slice.size(); ++n) {
    const graph::Node& node = graph.node(graph::NodeId(n));
    for (size_t i = 0; slice[n] && i < node.result_count; ++i) count += graph.meta(node.result(i)).numel();
  }
  return count;
}

}  // namespace

at::Tensor known_value(const graph::Graph& graph, graph::ValueId value, const ConstantPool& constants) {
  std::optional<std::vector<bool>> slice = graph::constant_slice(graph, value);
  if (!slice || elements_of(graph, *slice) > kMostElements) return {};
  slice->flip();
  c10::impl::ExcludeDispatchKeyGuard no_fake(c10::DispatchKey::Fake);  // the plan makes tensors of its numbers
  BelowAutograd below;
  const Plan plan(graph, {&value, 1}, constants, *slice);
  std::vector<at::Tensor> registers(plan.register_count());
  plan.run(registers.data());
  return registers[plan.register_of(value)];
}

}  // namespace framejit::torchlib
