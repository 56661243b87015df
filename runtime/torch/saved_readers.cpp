#include "runtime/torch/saved_readers.h"

#include <set>

namespace framejit::torchlib {

std::vector<uint32_t> count_readers(const BackwardGraph& backward) {
  const graph::Graph& graph = backward.graph;
  std::vector<std::set<uint32_t>> sources(graph.value_count());  // saved values that it is computed from alone
  std::vector<bool> is_gradient(graph.value_count());
  for (uint32_t i = 0; i < backward.saved.size(); ++i) sources[graph.inputs()[i].index()] = {i};
  for (size_t i = backward.saved.size(); i < graph.inputs().size(); ++i) is_gradient[graph.inputs()[i].index()] = true;
  std::vector<uint32_t> counts(backward.saved.size());
  for (size_t n = 0; n < graph.node_count(); ++n) {
    const graph::Node& node = graph.node(graph::NodeId(n));
    if (node.erased) continue;
    std::set<uint32_t> read;
    bool reads_gradient = false;
    for (const graph::Operand& operand : node.args())
      graph::for_each_value(operand, [&](graph::ValueId value) {
        reads_gradient = reads_gradient || is_gradient[value.index()];
        read.insert(sources[value.index()].begin(), sources[value.index()].end());
      });
    for (size_t i = 0; i < node.result_count; ++i) {
      is_gradient[node.result(i).index()] = reads_gradient;
      if (!reads_gradient) sources[node.result(i).index()] = read;
    }
    if (reads_gradient)
      for (uint32_t source : read) ++counts[source];
  }
  return counts;
}

}  // namespace framejit::torchlib
