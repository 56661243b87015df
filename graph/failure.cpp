#include "graph/failure.h"

#include "graph/dtype.h"
#include "graph/number.h"

namespace framejit::graph {

namespace {

bool divides_by_no_zero(const Node& node) {
  return find_number_op(node.op) == NumberOp::kDivide && node.arg(1).is(Operand::Kind::kFloat) &&
         node.arg(1).as_float() != 0;
}

}  // namespace

bool raises_on_data(const Graph& graph, const Node& node) {
  const OpInfo& info = op_info(node.op);
  if (info.has(kOpMayRaise)) return !divides_by_no_zero(node);
  if (!info.has(kOpRaisesOnIntegers) || node.result_count == 0) return false;
  return is_integral(graph.meta(node.result(0)).dtype, false);
}

bool may_raise(const Graph& graph, const Node& node) {
  const OpInfo& info = op_info(node.op);
  const bool own = info.name.starts_with("framejit.") || info.name.starts_with("framejit::");
  return raises_on_data(graph, node) || (!info.has(kOpNative) && !own);
}

}  // namespace framejit::graph
