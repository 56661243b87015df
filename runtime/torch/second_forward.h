// The forward of a captured graph once more, with autograd: for gradients of gradients, and where a recorded backward
// lacks what it would read.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/torch/plan.h"
#include "runtime/torch/recording.h"
#include "runtime/torch/root_groups.h"

namespace framejit::torchlib {

class SecondForward {
 public:
  // Of one cluster. `is_only`: there are no others. The recording must outlive this.
  SecondForward(const Recording& recording, const RootCluster& cluster, bool is_only);

  // Whether it begins with this input of the graph.
  bool reads(uint32_t input) const { return reads_.empty() || reads_[input]; }
  // Before the first of the next, while nobody else uses the recording's joint graph. Throws where the graph cannot be
  // run twice, with the reason.
  void prepare();
  // Runs it on the inputs that it reads and differentiates through that. `gradients`: of all roots of the recording,
  // undefined for those of other clusters. Returns those of the cluster's inputs. Thread-safe.
  torch::autograd::variable_list differentiate(const std::vector<at::Tensor>& inputs,
                                               const torch::autograd::variable_list& gradients) const;

 private:
  void take_part();
  const graph::Graph& graph() const { return part_ ? *part_ : *recording_.joint; }

  const Recording& recording_;
  const RootCluster& cluster_;
  std::string why_not_;
  std::optional<graph::Graph> part_;   // what the cluster alone needs; none: the recording's whole graph
  std::vector<graph::ValueId> roots_;  // beside the cluster's, in graph()
  std::vector<bool> reads_;            // beside the recording's inputs; empty: all
  std::vector<std::pair<uint32_t, graph::ValueId>> inputs_;  // those of the recording that it reads, in graph()
  std::unique_ptr<Plan> plan_;
};

}  // namespace framejit::torchlib
