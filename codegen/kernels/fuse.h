// Which nodes become kernels.
#pragma once

#include <span>
#include <vector>

#include "codegen/kernels/lower.h"

namespace framejit::codegen {

// Groups of nodes, at least two unless one is worth a kernel, that one walk over memory of one device can compute, each
// connected through what one computes for another: elementwise ones of one layout, reductions of its rows, and
// elementwise ones of the rows' results. A group runs in the place of its last node: no other node before that place
// reads what it computes or writes, and nothing that it reads or writes is written by others between its first node and
// its last. `skip`: nodes that do not run, by index, may be empty. `keep`: values that must exist.
//
// Inputs of the graph, and constants, are taken for memory that lies apart. The order of groups rests on that for those
// that are written in place; without `may_write_inputs` there are none.
struct Fusion {
  std::vector<FusedGroup> groups;
  std::vector<graph::ValueId> apart;  // what nothing else may overlap: inputs that are written, or views of them
};
Fusion fuse(const graph::Graph& graph, std::span<const graph::ValueId> keep, const std::vector<bool>& skip,
            bool may_write_inputs);

}  // namespace framejit::codegen
