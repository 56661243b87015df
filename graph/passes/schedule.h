// The order of a graph's nodes.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "graph/passes/contents.h"

namespace framejit::graph {

// The nodes in an order that holds less memory at once: of two operators beside each other that need nothing of each
// other, first the one after which more is free. Autograd's formulas, for one, give the gradient of a layer's input
// before that of its weight, after which the layer's input is free. `stays`: values that are there afterwards as well.
// What kernels compute stays where it is: they are made of neighbours.
std::vector<NodeId> schedule(const Graph& graph, const std::vector<ValueId>& stays, HasKernel has_kernel);

}  // namespace framejit::graph
