// Records bodies of control flow (graph/control_flow.h): what operators record between begin() and end() is cut out of
// the recorder's graph, and a node over the bodies put there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/torch/recorder.h"

namespace framejit::torchlib {

class BodyRecorder {
 public:
  // A fake for each parameter, of the kind of these.
  std::vector<at::Tensor> begin(Recorder& recorder, const std::vector<at::Tensor>& like);
  std::vector<at::Tensor> begin(Recorder& recorder, const std::vector<graph::ValueId>& like);
  // False with a reason if this makes no body. Either way the graph is without what was recorded.
  bool end(Recorder& recorder, const std::vector<at::Tensor>& outputs, std::string* why_not);

  // Ends one that becomes no part of the graph.
  void drop(Recorder& recorder);

  // Over the two bodies that ended last. Empty with a reason.
  std::vector<at::Tensor> cond(Recorder& recorder, const at::Tensor& predicate, std::string* why_not);
  std::vector<at::Tensor> while_loop(Recorder& recorder, const std::vector<at::Tensor>& carried, std::string* why_not);

 private:
  struct Mark {
    size_t node_count;
    size_t value_count;
    std::vector<graph::ValueId> parameters;
  };
  struct Body {
    std::shared_ptr<const graph::Graph> graph;
    std::vector<graph::ValueId> captured;
    std::vector<graph::TensorMeta> outputs;
  };
  static void erase(Recorder& recorder, const Mark& mark);
  std::pair<Body, Body> take_two();
  static std::vector<at::Tensor> add_node(Recorder& recorder, graph::OpId op, std::span<const graph::Operand> operands,
                                          const std::vector<graph::TensorMeta>& kinds, std::string* why_not);

  std::vector<Mark> open_;
  std::vector<Body> ended_;
};

}  // namespace framejit::torchlib
