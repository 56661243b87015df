// The typed indices of the graph. They print as in the textual form: %3 is a ValueId.
#pragma once

#include "base/ids.h"

namespace framejit::graph {

struct ValueTag;
struct NodeTag;
struct LocationTag;
struct OpTag;
struct ConstTag;
struct SubgraphTag;

using ValueId = Id<ValueTag>;
using NodeId = Id<NodeTag>;
using LocationId = Id<LocationTag>;
using OpId = Id<OpTag>;
// An object that the graph cannot hold (a torch.Generator, a constant tensor): an index in the runtime's pool.
using ConstId = Id<ConstTag>;
// A body of control flow: an index among the graphs that a graph holds.
using SubgraphId = Id<SubgraphTag>;

}  // namespace framejit::graph
