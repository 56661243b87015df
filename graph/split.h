// Cuts the end of a graph off as a graph of its own: a backward recorded behind its forward, a body of control flow.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace framejit::graph {

struct Split {
  Graph graph;
  std::vector<ValueId> captured;  // values of the whole that are its first inputs, in this order
  std::vector<ValueId> outputs;   // of the split graph, beside those asked for; invalid where these are
};

struct SplitRequest {
  std::string name;
  size_t first_node = 0;   // nodes from here on are copied
  size_t first_value = 0;  // what was defined before, and inputs of the whole, are captured where they are used
  std::span<const ValueId> parameters = {};  // further inputs, behind those: inputs of the whole, or results of a node
                                             // that then is not copied
  std::span<const ValueId> outputs = {};
  bool locations = true;
};

// The whole stays as it is.
Split split_off(const Graph& whole, const SplitRequest& request);

}  // namespace framejit::graph
