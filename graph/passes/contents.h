// A graph's values as what they hold: a copy in which nothing is written, so that a value of it never changes. Where
// the graph writes in place what it has made, the copy has the operator that makes a new value of it; what it cannot
// say so (a write to an input or through a view, an operator with effects) gives values that come from nowhere.
#pragma once

#include <vector>

#include "graph/alias.h"
#include "graph/graph.h"

namespace framejit::graph {

struct Contents {
  Graph graph;                  // to compute values from others, not to run as it is
  std::vector<ValueId> at_end;  // by value of the original: what it holds when all nodes have run
  std::vector<bool> unknown;    // by alias class of the original: whether it has been written in another way
};

// Whether the kernels of this process compute the node.
using HasKernel = bool (*)(const Graph& graph, const Node& node);

bool is_batch_norm_of_batch(const Node& node);

// Batch norm with the statistics of the batch is in the copy what its kernel computes of these: they need not be
// computed again, and running statistics are not written twice.
Contents contents_of(const Graph& graph, const AliasClasses& aliases, HasKernel has_kernel);

}  // namespace framejit::graph
