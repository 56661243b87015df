#include "graph/failure.h"

#include "graph/dtype.h"

namespace framejit::graph {

bool raises_on_data(const Graph& graph, const Node& node) {
  const OpInfo& info = op_info(node.op);
  if (info.has(kOpMayRaise)) return true;
  if (!info.has(kOpRaisesOnIntegers) || node.result_count == 0) return false;
  return is_integral(graph.meta(node.result(0)).dtype, false);
}

bool may_raise(const Graph& graph, const Node& node) {
  const OpInfo& info = op_info(node.op);
  const bool own = info.name.starts_with("framejit.") || info.name.starts_with("framejit::");
  return raises_on_data(graph, node) || (!info.has(kOpNative) && !own);
}

}  // namespace framejit::graph
