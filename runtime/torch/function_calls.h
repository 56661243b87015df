// Calls of torch.autograd.Function whose forward lies in a graph. A backward is recorded by running the program's own
// on fakes, once the tracer has followed it and found nothing in it but operators; where that does not serve, the calls
// are made anew over the forward's operators.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"
#include "runtime/executable.h"

namespace framejit::torchlib {

class BodyRecorder;
class Plan;
class Recorder;

class FunctionCalls {
 public:
  FunctionCalls();
  ~FunctionCalls();  // takes the GIL
  FunctionCalls(const FunctionCalls&) = delete;
  FunctionCalls& operator=(const FunctionCalls&) = delete;

  // --- while recording: see TensorHost
  void begin(Recorder& recorder);
  bool end(Recorder& recorder, const FunctionCall* call, std::string* why_not);
  std::vector<at::Tensor> begin_gradient(Recorder& recorder, BodyRecorder& bodies, std::string* why_not);
  bool end_gradient(Recorder& recorder, BodyRecorder& bodies, const std::vector<PyObject*>& results,
                    std::vector<FrozenRead> reads, std::string* why_not);

  bool empty() const { return records_.empty(); }
  // The first node of the first call's forward.
  graph::NodeId first_node() const;
  // What such a call gave with a history of its own.
  bool gave(graph::ValueId value) const { return given_.count(value.value) != 0; }

  // --- when the graph has run. Whether what their backwards read is as it was when they were followed.
  bool hold() const;
  // Values that run() needs in their registers.
  std::vector<graph::ValueId> values() const;
  // Runs the forward graph's plan, which was made with autograd, with the calls as nodes of autograd's graph. `after`
  // each node, for those of a call when the call is over.
  void run(const Plan& plan, at::Tensor* registers, const std::function<void(graph::NodeId)>& after) const;

 private:
  struct Record;
  std::vector<std::unique_ptr<Record>> records_;
  std::unordered_set<uint32_t> given_;
  size_t depth_ = 0;  // of forwards that have begun
  size_t first_node_ = 0;
  size_t input_count_ = 0;
  std::vector<graph::ValueId> gradients_;  // that the backward which is followed was given
};

}  // namespace framejit::torchlib
