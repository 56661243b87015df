// Operators whose operands are graphs.
//
//   framejit::cond(Tensor pred, Graph then, Graph otherwise, Tensor[] then_operands, Tensor[] otherwise_operands)
//     pred: one element. The body that it chooses runs on its operands; results are the body's outputs.
//   framejit::while_loop(Graph test, Graph body, Tensor[] carried, Tensor[] test_operands, Tensor[] body_operands)
//     Both take the carried values behind their operands. `test` gives one element, `body` what is carried on; results
//     are what is carried when the test fails.
//
// Bodies write nothing from outside, draw no random numbers, and give new tensors of the same kind whichever way is
// taken, so that their operators order like one that only reads.
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"

namespace framejit::graph {

OpId cond_op();
OpId while_loop_op();
inline bool is_control_flow(OpId op) { return op == cond_op() || op == while_loop_op(); }

// What is wrong with such a node, whose operands fit the schema and whose bodies hold by themselves. Nullopt for any
// other node.
std::optional<std::string> why_not_control_flow(const Graph& graph, const Node& node);

// Whether a graph may be a body: why not, in words.
std::optional<std::string> why_not_body(const Graph& graph);

}  // namespace framejit::graph
