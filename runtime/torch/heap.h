// What the process does with the memory of tensors between calls.
#pragma once

#include "graph/graph.h"

namespace framejit::torchlib {

// glibc gives large blocks back to the system as soon as they are freed, so each call of a large graph takes its pages
// anew: up to a tenth of a call (benchmarks/freed_memory.py). Once a block of 32 MiB has been freed it keeps up to
// twice as much (mallopt(3), M_MMAP_THRESHOLD). Most programs have done that sooner or later; a graph on large tensors
// does it at once, unless FRAMEJIT_KEEP_MEMORY is 0. What the environment says of malloc goes first.
void keep_freed_memory_for(const graph::Graph& graph);

}  // namespace framejit::torchlib
