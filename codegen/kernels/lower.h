// From nodes of the graph to a kernel. What an operator computes is its expression, graph/expression.h.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "codegen/kernels/kernel.h"
#include "codegen/kernels/loop.h"
#include "graph/graph.h"

namespace framejit::codegen {

// Nodes that run as one kernel, in the place of the last of them. The graph keeps its nodes: passes, reports and the
// backward see what the program did.
struct FusedGroup {
  std::vector<graph::NodeId> nodes;    // ascending
  std::vector<graph::ValueId> inputs;  // of the kernel's first buffers, in their order
  std::vector<graph::ValueId> outputs;
  // Inputs whose tensors it writes: those of the kernel's last buffers, behind the outputs.
  std::vector<graph::ValueId> written;
  Kernel kernel;
  Loop loop;
  graph::Device device;  // of all its tensors
};

enum class FusedKind : uint8_t {
  kNone,
  // An expression, in types that kernels know, on dense tensors of one device, the CPU or a CUDA device: into a result
  // of its own, or in place.
  kElementwise,
  kRows,  // what is computed of whole rows of a contiguous tensor: reductions over some of its dimensions
};

// How a node may be part of a kernel.
FusedKind fused_kind(const graph::Graph& graph, const graph::Node& node);

// Whether a kernel of this node alone is better than the operator.
bool is_worth_a_kernel(const graph::Graph& graph, const graph::Node& node);

// The value whose tensor this is: below autograd a detached tensor is the tensor, and an operator in place returns the
// tensor that it wrote.
graph::ValueId tensor_of(const graph::Graph& graph, graph::ValueId value);

// The tensor that a node of a kernel writes in place, or none.
graph::ValueId written_in_place(const graph::Graph& graph, const graph::Node& node);

// The tensors of which a node of whole rows writes one element for each.
std::vector<graph::ValueId> written_by_rows(const graph::Graph& graph, const graph::Node& node);

// The kernel of `nodes`, all of one layout, or of its rows: with one element in the place of each dimension of them.
// `outputs`: the tensors made by `nodes` that somebody else reads; they hold what the last node left in them. Nothing
// if one of its nodes has no kernel after all, or if nobody reads what they make.
std::optional<FusedGroup> lower(const graph::Graph& graph, std::vector<graph::NodeId> nodes,
                                std::vector<graph::ValueId> outputs);

}  // namespace framejit::codegen
