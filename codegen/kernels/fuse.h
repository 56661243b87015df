// Which nodes become kernels.
#pragma once

#include <span>
#include <vector>

#include "codegen/kernels/lower.h"

namespace framejit::codegen {

// Groups of at least two nodes that one walk over memory can compute, each connected through what one computes for
// another: elementwise ones of one layout, reductions of its rows, and elementwise ones of the rows' results. A group
// runs in the place of its last node: no other node before that place reads what it computes, and nothing is written
// between its first node and its last. `skip`: nodes that do not run, by index, may be empty. `keep`: values that must
// exist.
std::vector<FusedGroup> fuse(const graph::Graph& graph, std::span<const graph::ValueId> keep,
                             const std::vector<bool>& skip);

}  // namespace framejit::codegen
