// The textual form. print -> parse -> print gives the same text.
//
//   graph @forward (%0: tensor<2x128x256xf32, cpu>, %1: tensor<256xf32, cpu>) {
//     %2, %3, %4 = aten.native_layer_norm(%0, [256], %1, none, 1e-05) : tensor<...>, tensor<...>, tensor<...>  #
//     model.py:41 in forward return %2
//   }
//
// Bodies of control flow stand in front of the nodes that name them as @then.0, indented as a whole.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace framejit::graph {

struct PrintOptions {
  bool locations = true;
  // Numbers values in the order of their definition instead of by id: text that does not depend on what was erased.
  bool renumber = true;
};

std::string to_text(const Graph& graph, const PrintOptions& options = {});
std::string to_text(const Operand& operand);
std::string op_text(OpId op);  // "aten.add.Tensor"
// By the index of a value: the number that the text has for it, or ValueId::kInvalid where it has none.
std::vector<uint32_t> text_numbers(const Graph& graph);

}  // namespace framejit::graph
