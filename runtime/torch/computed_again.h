// What kernels make cheap enough that a backward computes it again rather than keep it.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace framejit::torchlib {

bool is_cheap_again(const graph::Graph& graph, const graph::Node& node);

// Whether kernels compute what a boolean mask stands for (graph/passes/drawn_masks.h), in the type that it had.
bool has_kernels_for_masks();

// Tensors of at most so many bytes are kept all the same. Setting it returns what it was; for tests.
int64_t least_computed_again();
int64_t set_least_computed_again(int64_t bytes);

}  // namespace framejit::torchlib
