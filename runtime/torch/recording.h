// What a finished recording leaves for the executable: which of the graph's values are the outputs and how they are
// made into tensors of the program, and the fakes, whose autograd graph is asked for gradients.
#pragma once

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/capture.h"
#include "runtime/torch/body_recorder.h"
#include "runtime/torch/function_calls.h"
#include "runtime/torch/global_state.h"
#include "runtime/torch/recorder.h"

namespace framejit::torchlib {

// An input of the graph with the fake that stood for it.
struct InputFake {
  at::Tensor fake;
  graph::ValueId value;
  const void* grad_fn = nullptr;  // as it was at first; compared only
  bool requires_grad = false;
  bool is_view = false;  // of another tensor of the program; the fake is none
  uint32_t version = 0;  // of the fake when it was made
  // Where gradients for it end, held from when that is first asked for: the node of a leaf is there as long as
  // something holds it.
  mutable torch::autograd::Edge end = {};
};

struct OutputSpec {
  graph::ValueId value;
  int input = -1;            // it is this input, the object itself
  bool data = false;         // a new tensor over the same data: `x.data`
  bool custom_view = false;  // a view that a torch.autograd.Function returned: autograd words its errors so
};

// A graph that computes gradients. Its inputs are the saved values of the forward graph, then the tangents.
struct BackwardGraph {
  graph::Graph graph{"backward"};
  std::vector<graph::ValueId> saved;      // values of the forward graph
  Recorder::Origins origins;              // of such values
  std::vector<uint32_t> tangents;         // which of those asked for each further input is
  std::vector<graph::ValueId> gradients;  // beside those asked for; invalid: none
  // Those of the fakes' graph that a second backward must not come to; compared only.
  std::vector<const torch::autograd::Node*> operations;
};

// What is known of a gradient that comes in: how a backward was specialised.
struct TangentMeta {
  bool defined = false;
  bool zero = false;  // LibTorch's kind of tensor that has nothing but zeros, and no memory
  graph::TensorMeta meta;
};

// A result whose history the program has differentiated and freed inside of the capture: its backward raises what
// eager's would. `inputs`: of the recording, that its history reaches.
struct FreedRoot {
  graph::ValueId value;
  std::vector<uint32_t> inputs;
  std::string operation;  // as in HistoryBlock
};

// An output that is a view, with a history of its own that begins at its base.
struct ViewOutput {
  uint32_t output;  // in Recording::outputs
  bool of_input;
  at::Tensor fake;
};

struct DataWrite {
  uint32_t input;
  uint32_t counted;
};

// An input that is not the tensor at its source, a leaf, but what autocast's cache has for it in the region that the
// graph is called in. The graph's type for it is the one it is cast to.
struct CastInput {
  uint32_t input;
  uint32_t leaf;   // as an input
  bool grad_mode;  // under which the program first asks for it
  bool inference;
  bool of_view;  // of which autocast makes a cast for each operator
};

struct Recording {
  explicit Recording(graph::Graph* graph) : recorder(graph) {}

  Recorder recorder;
  BodyRecorder bodies;
  FunctionCalls functions;
  SavedGlobalState state;
  std::vector<InputFake> inputs;
  std::vector<OutputSpec> outputs;
  // Fresh tensors whose history is the graph as a whole: outputs, or what outputs are views of. The fakes are kept,
  // with their autograd graph.
  std::vector<graph::ValueId> roots;
  std::vector<at::Tensor> root_fakes;
  std::vector<ViewOutput> views;
  std::vector<uint32_t> differentiable_inputs;
  // The program has differentiated inside of the capture, and what that went over cannot be differentiated again.
  bool history_freed = false;
  // Backwards inside of the capture, and the first node of the first one.
  uint32_t backwards = 0;
  graph::NodeId first_backward;
  // The first node of the first of those that went over a part alone: the program named what to accumulate in.
  graph::NodeId partial_backward;
  std::vector<FreedRoot> freed_roots;
  // Inputs that the program writes through `.data`, which leaves their version as it is, and how far their version goes
  // by other writes. Then those that it writes otherwise.
  std::vector<DataWrite> written_as_data;
  std::vector<uint32_t> written;
  // The forward graph again: backwards are recorded at its end, and cut off into a BackwardGraph.
  std::optional<graph::Graph> joint;
  // After finish_recording failed: the node that makes a tensor that collects gradients of its own, if that is why.
  graph::NodeId inner_leaf;
  // After record_backward failed: the node of the forward whose gradient could not be recorded, if that is known.
  graph::NodeId unrecordable;
  // The program has left the caller's region of autocast, whose casts are in the cache until that is replayed.
  bool casts_emptied = false;
  std::vector<CastInput> casts;
  // They are made before the graph writes inputs that the leaves do not share memory with as far as is known.
  bool casts_pass_writes = false;
  // Inputs, leaves, of which several operators of the graph read one cast: autocast's own, in a region that the graph
  // begins itself, if the leaf is no view.
  std::vector<uint32_t> cast_once;
  uint32_t recomputed = 0;  // calls of checkpointed functions
  graph::NodeId first_recomputed;

  // What is cast from here on, if anything is, would be of the region that was left.
  bool finds_old_casts() const { return casts_emptied && (autocast_nesting() > 0 || autocast_state() != 0); }
  bool training() const { return !roots.empty(); }
};

// The inputs that gradients may reach, by the nodes of autograd's graph of the fakes in which they end.
std::unordered_map<const torch::autograd::Node*, uint32_t> inputs_by_end(const Recording& recording);

// Fills in everything but the inputs. False with a reason if a graph with these outputs cannot be run as eager would.
bool finish_recording(Recording& recording, const std::vector<at::Tensor>& outputs, std::string* why_not);

// Records what the fakes' graph gives at the edges `to` for tangents like these, which come in at the edges `from`. May
// be called again, from any thread but one at a time.
BackwardGraph record_backward(Recording& recording, const torch::autograd::edge_list& from,
                              const std::vector<TangentMeta>& tangents, const torch::autograd::edge_list& to);
// Takes the roots whose backward goes over freed history out of roots and root_fakes. Throws if that of one is freed in
// part.
void set_freed_roots_apart(Recording& recording);
// A tangent that is laid out as the root is.
TangentMeta usual_tangent(const at::Tensor& root);

// The node that computes `value` from another tensor by a view, or null: `value` is fresh. An operator that changes
// sizes in place counts when `through_in_place`.
const graph::Node* view_step(const graph::Graph& graph, graph::ValueId value, graph::ValueId* base);

// What an operator in place (t_, out=) has given other sizes, as it was before.
std::unordered_set<uint32_t> reshaped_values(const graph::Graph& graph);

}  // namespace framejit::torchlib
