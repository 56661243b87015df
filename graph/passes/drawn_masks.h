// The masks of dropout as bytes.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace framejit::graph {

// A tensor of f32 on the CPU that the graph fills with zeros and ones by chance, divides by a number, and then only
// reads: `empty_like(x).bernoulli_(p).div_(p)`.
struct DrawnMask {
  ValueId value;  // as the first node names it
  NodeId making, drawing, dividing;
};

// Those of more than `small` bytes that share no memory with one of `seen`.
std::vector<DrawnMask> drawn_masks(const Graph& graph, std::span<const ValueId> seen, int64_t small);

// They are drawn as booleans, by the same numbers, and these are multiplied by what the division makes of a one. The
// products, the masks to the bit, are what the graph reads under the masks' names: kernels compute them where they read
// them, and a backward keeps a quarter of the bytes. The default dtype must be f32.
void draw_as_booleans(Graph& graph, std::span<const DrawnMask> masks);

}  // namespace framejit::graph
