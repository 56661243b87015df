// Records into a graph that the program builds: `with framejit.graph_guard(g):`.
//
// What stops a capture is an error here, after which the graph is as it was before the operator. Real tensors of the
// program become constants, by reference: what they hold when an Executor runs is what counts.
#pragma once

#include <memory>
#include <string>

#include "runtime/torch/recorder.h"

namespace framejit::torchlib {

class BuiltGraph;

class GraphRecorder final : public Recorder, public FakeKeeper {
 public:
  // `owner` owns this recorder and its graph.
  GraphRecorder(graph::Graph* graph, BuiltGraph* owner) : Recorder(graph), owner_(owner) {}

  void record(const OpEntry& op, torch::jit::Stack& stack) override;
  // Gives the fake its Python class.
  void adopt(const at::Tensor& fake) const override;

  // The value that a tensor of the program stands for; a real one becomes a constant. Throws framejit.GraphError.
  graph::ValueId value_of(const at::Tensor& tensor, const char* what_for);

 protected:
  at::Tensor new_fake(const graph::TensorMeta& meta, graph::ValueId value, c10::Storage storage,
                      c10::DispatchKeySet extra) override;
  graph::ValueId value_of_other(const OpEntry& op, const at::Tensor& tensor) override;
  bool takes_real_tensors() const override { return true; }

 private:
  struct Mark {
    size_t nodes, values, inputs, constants;
  };
  void roll_back(const Mark& mark);
  graph::ValueId value_of_real(const at::Tensor& tensor, const std::string& who);

  BuiltGraph* owner_;
  int depth_ = 0;  // operators under way, one inside of the other
};

// "<value %3: tensor<2x3xf32, cpu> of graph @f>"
std::string describe_value(const FakeImpl& fake);
// A graph value is used where no graph is being built on this thread.
[[noreturn]] void refuse_outside_guard(const std::string& op, const FakeImpl& fake);

}  // namespace framejit::torchlib
