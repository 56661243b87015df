// What a pass made of a graph.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace framejit::graph {

struct ChangedGraph {
  Graph graph;
  std::vector<ValueId> values;  // by value of the original; invalid where it has none
};

}  // namespace framejit::graph
