#include "graph/stepped.h"

#include <algorithm>

#include "graph/expression.h"

namespace framejit::graph {

bool is_stepped(const Node& node) {
  using Op = ExpressionOp;
  const Expression* expression = expression_of(node.op);
  if (!expression) return false;
  const Op result = expression->result().op;
  if (result >= Op::kEqual && result <= Op::kGreaterEqual) return true;
  return std::any_of(expression->all().begin(), expression->all().end(), [](const ExpressionNode& step) {
    return step.op == Op::kCeil || step.op == Op::kFloor || step.op == Op::kTrunc || step.op == Op::kRound ||
           step.op == Op::kFMod;
  });
}

std::vector<bool> inputs_read_by_steps(const Graph& graph) {
  std::vector<bool> wanted(graph.value_count());
  for (size_t n = graph.node_count(); n-- > 0;) {
    const Node& node = graph.node(NodeId(n));
    bool is_wanted = is_stepped(node);
    for (uint32_t i = 0; i < node.result_count; ++i) is_wanted = is_wanted || wanted[node.result(i).index()];
    if (!is_wanted) continue;
    for (const Operand& operand : node.args())
      for_each_value(operand, [&](ValueId value) { wanted[value.index()] = true; });
  }
  std::vector<bool> found;
  for (ValueId input : graph.inputs()) found.push_back(wanted[input.index()]);
  return found;
}

}  // namespace framejit::graph
