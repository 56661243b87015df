// Within a region autocast keeps one cast of a leaf, which all that runs there shares: its gradients meet in the lower
// precision, and a write to the leaf does not reach it. In a region of the caller's that cast is an input of the graph,
// which comes from LibTorch's own cache when the graph is called.
#pragma once

#include "runtime/executable.h"
#include "runtime/torch/recording.h"
#include "tracer/trace_stop.h"

namespace framejit::torchlib {

// Makes inputs of what the cache has for leaves after the recording. Valid: a node that the graph must end before, as
// its cast is not to be made at the beginning, or outlives the graph.
RefusedNode take_cast_inputs(Recording& recording, graph::Capture& capture, const std::vector<at::Tensor>& outputs);

// Runs `program`, of the recording, with what the cache has when it is called. Where the cache has another kind of
// tensor, or a leaf that the graph casts once is a view, the call is left to the interpreter.
std::unique_ptr<runtime::Executable> with_casts(const graph::Graph& graph, const Recording& recording,
                                                std::unique_ptr<runtime::Executable> program);

}  // namespace framejit::torchlib
