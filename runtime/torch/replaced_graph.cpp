#include "runtime/torch/replaced_graph.h"

#include <ATen/Context.h>

#include <algorithm>

namespace framejit::torchlib {
namespace {

// The recorder knows by the captured graph's values under which grad mode a view was made.
bool needs_grad_modes(const graph::Graph& graph, const Recording& recording) {
  graph::ValueId base;
  return recording.recorder.has_mixed_grad_mode() &&
         std::any_of(recording.outputs.begin(), recording.outputs.end(),
                     [&](const OutputSpec& output) { return view_step(graph, output.value, &base) != nullptr; });
}

}  // namespace

bool may_be_replaced(const graph::Graph& graph, const Recording& recording) {
  return !graph.has_states() && graph.subgraph_count() == 0 && recording.roots.empty();
}

bool may_be_relaid(const graph::Graph& graph, const Recording& recording) {
  return may_be_replaced(graph, recording) && !needs_grad_modes(graph, recording) && recording.freed_roots.empty() &&
         recording.written_as_data.empty();
}

bool computes_with_onednn() { return at::globalContext().hasMKLDNN() && at::globalContext().userEnabledMkldnn(); }

}  // namespace framejit::torchlib
