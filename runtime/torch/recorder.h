// One recording: operators on fakes become nodes of a graph, their results new fakes.
//
// While a recorder is active on a thread, the Fake key is included in the thread's dispatch state, so that operators
// that make tensors come here too. Below this key LibTorch's own Meta kernels may be asked what an operator returns;
// they are given meta tensors only, and with the key excluded.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "graph/infer.h"
#include "graph/number.h"
#include "runtime/torch/fake_tensor.h"
#include "runtime/torch/op_entry.h"
#include "runtime/torch/operands.h"
#include "runtime/torch/operator_state.h"

namespace framejit::torchlib {

class Recorder {
 public:
  explicit Recorder(graph::Graph* graph) : graph_(graph) {}
  virtual ~Recorder() = default;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // The recorder that operators on this thread go to, or null.
  static Recorder* current();
  // Scope: operators go to `recorder`, and the Fake key is included. Restores what was there before.
  class Active {
   public:
    explicit Active(Recorder* recorder);
    ~Active();

   private:
    Recorder* previous_;
    bool was_included_;
  };

  graph::Graph& graph() const { return *graph_; }
  // Continues in another graph that begins with the same values.
  void set_graph(graph::Graph* graph) { graph_ = graph; }
  void set_location(graph::LocationId location) { location_ = location; }
  graph::LocationId location() const { return location_; }
  const ConstantPool& constants() const { return constants_; }
  // Of a graph that was not recorded here.
  void set_constants(ConstantPool constants) { constants_ = std::move(constants); }

  // A new fake that stands for an input. Real tensors that share storage give fakes that share storage.
  at::Tensor add_input(const at::Tensor& real);
  // A fake for a value of the graph that no operator of this recording made.
  at::Tensor add_input(const graph::TensorMeta& meta);

  // A fake for a new tensor that a node of this graph gives.
  at::Tensor add_result(graph::ValueId value);

  // Numbers of the graph, see graph/number.h. The fake that stands for it as a tensor. Of the one element of a fake:
  // undefined if that is known, or not followed.
  at::Tensor number_of(const at::Tensor& fake);
  at::Tensor add_number(graph::NumberOp op, std::span<const graph::Operand> operands);
  // A number is given to an operator in the place of a Scalar from here on.
  void note_number_argument() { gives_numbers_ = true; }

  // After Graph::truncate: values from `first` on are gone.
  void forget_values_from(graph::ValueId first);

  // The fallback of the Fake key: takes the arguments off the stack and leaves the results there.
  virtual void record(const OpEntry& op, torch::jit::Stack& stack);
  // For tests and benchmarks: whether each operator asks its Meta kernel, also where graph/ has a rule. Returns how it
  // was.
  static bool set_meta_only(bool on);
  // While this is set, detach() gives a fake of the same value and no node: how subclasses are wrapped.
  void set_quiet(bool quiet) { quiet_ = quiet; }

  // The trace stops where this node would be recorded. `why`: as in RefusedNode.
  void set_refused(graph::NodeId node, std::string why) {
    refused_ = node;
    why_refused_ = std::move(why);
  }
  bool refuses_next() const { return refused_.valid() && graph_->node_count() == refused_.index(); }
  // While gradients are recorded: of which operation of autograd the recorder threw, if it did (its sequence number).
  std::optional<uint64_t> failed_sequence() const { return failed_sequence_; }
  void note_failure();
  // While gradients are recorded: which operation of autograd each node is of. Null ends it.
  // Of a value that a backward reads: the operation of eager whose result it is, and which. Empty: of none.
  struct Origin {
    std::string operation;
    uint32_t result = 0;
  };
  using Origins = std::unordered_map<uint32_t, Origin>;  // by value
  void set_origins(Origins* origins) { origins_ = origins; }
  using Operations = std::vector<std::pair<graph::NodeId, const torch::autograd::Node*>>;
  void set_operations(Operations* operations) { operations_ = operations; }
  // The first node recorded after autograd made the operation with this sequence number; invalid if there is none.
  graph::NodeId node_of_sequence(uint64_t sequence, size_t node_count) const;

  // Grad mode when a view was made, where it was not the one at the start.
  bool grad_mode_of(graph::ValueId value, bool otherwise) const;
  // The graph is another one now: by value of it, which one that is there.
  void follow(const std::vector<graph::ValueId>& values);
  void set_ambient_grad_mode(bool enabled) { ambient_grad_mode_ = enabled; }
  // Whether grad mode was another than at the start for any operator.
  bool has_mixed_grad_mode() const { return has_mixed_grad_mode_; }
  // Whether a Meta kernel said what some operator returns: of layouts, some do not say what the kernel then does.
  bool asked_meta() const { return asked_meta_; }
  // Autograd has grad mode off for the forward of a torch.autograd.Function, which is no change by the program.
  void set_in_function(bool inside) { in_function_ = inside; }
  void note_function() { has_mixed_grad_mode_ = true; }
  bool program_mixes_grad_modes() const { return program_mixes_grad_modes_; }
  // The program has changed inference mode or the default dtype: what is recorded from here on runs in that state.
  void note_state();

 protected:
  using Stack = torch::jit::Stack;

  virtual at::Tensor new_fake(const graph::TensorMeta& meta, graph::ValueId value, c10::Storage storage,
                              c10::DispatchKeySet extra = {});
  // The value for an argument that is no fake of this recording. Stops the trace where it cannot be one.
  virtual graph::ValueId value_of_other(const OpEntry& op, const at::Tensor& tensor);
  // Whether real tensors of the program may be arguments. Then their data is not known: it may change before a run.
  virtual bool takes_real_tensors() const { return false; }
  graph::ValueId constant_value(const at::Tensor& real);

  graph::Graph* graph_;
  graph::LocationId location_;
  ConstantPool constants_;

 private:
  friend class MetaCall;

  void read_operands(const OpEntry& op, const Stack& stack, size_t base);
  graph::DType elements() const;
  void require_fitting(const OpEntry& op, size_t arg, const graph::Operand& number) const;
  graph::ValueId fitting_number(const OpEntry& op, graph::ValueId number);
  graph::ValueId known_number(double number);
  graph::Operand number_list(const OpEntry& op, const c10::IValue& list);
  graph::Operand tensor_operand(const OpEntry& op, const at::Tensor& tensor);
  graph::Operand list_operand(const OpEntry& op, const c10::IValue& list);
  void note_origin(graph::ValueId value, const at::Tensor& tensor);
  graph::ValueId value_of_element(const OpEntry& op, const at::Tensor& tensor);
  bool record_special(const OpEntry& op, Stack& stack, size_t base);
  bool is_pinned(const at::Tensor& tensor) const;
  void require_recordable(const OpEntry& op, const Stack& stack, size_t base) const;
  void lift(Stack& stack, size_t base);
  void decompose(const OpEntry& op, Stack& stack);
  bool answer_from_known_values(const OpEntry& op, Stack& stack, size_t base);
  void require_placement(const OpEntry& op);
  graph::InferStatus infer(const OpEntry& op);
  void stop_where_refused(const graph::OpInfo& op) const;
  graph::ValueId add_node(const OpEntry& op);
  void push_results(const OpEntry& op, Stack& stack, size_t base, graph::ValueId first);
  at::Tensor result_tensor(const OpEntry& op, const Stack& stack, size_t base, size_t index, graph::ValueId value);
  void record_through_meta(const OpEntry& op, Stack& stack, size_t base);
  void update_in_place(FakeImpl* fake, const graph::TensorMeta& meta, graph::ValueId value);

  Scratch scratch_;
  std::vector<graph::Operand> operands_;
  graph::InferOutput results_;
  std::vector<c10::DispatchKeySet> result_keys_;  // beside results_, after a Meta kernel ran; else empty
  std::unordered_map<const c10::StorageImpl*, c10::Storage> input_storages_;
  std::unordered_map<const c10::TensorImpl*, graph::ValueId> constant_values_;
  std::unordered_map<uint32_t, bool> grad_modes_;
  bool ambient_grad_mode_ = true;
  bool has_mixed_grad_mode_ = false;
  bool program_mixes_grad_modes_ = false;
  bool asked_meta_ = false;
  bool in_function_ = false;
  bool state_changed_ = false;
  bool quiet_ = false;
  bool gives_numbers_ = false;
  graph::NodeId refused_;
  std::string why_refused_;
  std::vector<uint64_t> sequences_;  // by node: the number that autograd gives to its next operation
  std::optional<uint64_t> failed_sequence_;
  Operations* operations_ = nullptr;
  Origins* origins_ = nullptr;
};

}  // namespace framejit::torchlib
