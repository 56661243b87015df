// Rows of tensors: what a node reduces to one number, and what is left of it.
#pragma once

#include "codegen/kernels/loop.h"
#include "graph/graph.h"

namespace framejit::codegen {

// The dimensions of its first argument that a node of whole rows takes for one, without those of size one. None of
// other nodes.
Dims row_dims(const graph::Graph& graph, const graph::Node& node);

// Whether the node's expression reduces rows that kernels take.
bool reduces_rows(const graph::Graph& graph, const graph::Node& node);

// Beyond this a sum in order loses more than LibTorch's, which sums in a tree.
constexpr int64_t kLongestRow = 1 << 16;

// Whether kernels take these dimensions for rows: the stretches of memory that they are made of are longer than one
// element.
bool is_of_rows(const graph::TensorMeta& meta, Dims row);

int64_t row_length(const graph::TensorMeta& meta, Dims row);

// Those of more than one element.
Dims without_ones(const graph::TensorMeta& meta, Dims dims);

// Whether `meta` has one element for each row of `whole`, and ones in the place of the row's dimensions.
bool is_row_of(const graph::TensorMeta& meta, const graph::TensorMeta& whole, Dims row);

// A tensor with one element for each row of `whole` that has lost the row's dimensions: with ones in their place.
graph::TensorMeta with_dims(const graph::TensorMeta& rows, const graph::TensorMeta& whole, Dims row);

// Whether it is what a node of whole rows leaves of them, without the dimensions that they were: a kernel writes it,
// and only nodes outside of that kernel read it.
bool drops_dims(const graph::Graph& graph, graph::ValueId value);

}  // namespace framejit::codegen
