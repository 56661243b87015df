// The forward of a captured graph once more, with autograd: for gradients of gradients, and where a recorded backward
// lacks what it would read.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/torch/history_blocks.h"
#include "runtime/torch/node_pointer.h"
#include "runtime/torch/plan.h"
#include "runtime/torch/recording.h"
#include "runtime/torch/results_below.h"

namespace framejit::torchlib {

class SecondForward {
 public:
  // Of one block. What it is given must outlive this.
  SecondForward(const Recording& recording, const History& history, size_t block);

  // Whether it begins with this input of the graph.
  bool reads(uint32_t input) const { return reads_.empty() || reads_[input]; }
  const std::vector<ResultBelow>& results_below() const { return below_; }
  // Whether there can be one.
  bool is_possible() const { return why_not_.empty(); }
  // Before the first of the next, while nobody else uses the recording's joint graph. Throws where the graph cannot be
  // run twice, with the reason.
  void prepare();
  // Runs it on the inputs that it reads and differentiates through that. `node`: the block's in the history of the
  // call, in which results_below() are at `below`. `gradients`: of the block's entries. Returns those of its exits, the
  // sum for each, or of those that are wanted. Thread-safe.
  torch::autograd::variable_list differentiate(const NodePtr& node, const torch::autograd::edge_list& below,
                                               const std::vector<at::Tensor>& inputs,
                                               const torch::autograd::variable_list& gradients,
                                               const std::vector<bool>& wanted) const;

 private:
  // An edge of the fakes' graph, which has the same shape as autograd's of this forward: where its operation is among
  // operations_of(), and the number of what comes in or goes out there.
  struct Place {
    uint32_t operation, number;
  };
  using Operations = std::vector<torch::autograd::Node*>;
  void take_part();
  void run(const std::vector<at::Tensor>& inputs, const torch::autograd::edge_list& below,
           std::vector<at::Tensor>& registers) const;
  void find_places();
  void require_same_shape(const Operations& operations) const;
  // The history that the forward has made this time, of the block.
  struct Again {
    Operations operations;
    torch::autograd::edge_list entries;                      // beside the block's
    std::vector<std::vector<torch::autograd::Edge*>> exits;  // beside the block's: the edges that lead there
  };
  Again whole_again(const at::Tensor* registers, const std::vector<at::Tensor>& inputs) const;
  Again block_again(const at::Tensor& root, const std::vector<at::Tensor>& inputs,
                    const torch::autograd::edge_list& below) const;
  static torch::autograd::variable_list collect(const Again& again, const torch::autograd::variable_list& gradients,
                                                const std::vector<bool>& wanted);
  void lead_to_results(const Again& again, const NodePtr& node, const std::vector<const torch::autograd::Node*>& ends,
                       const torch::autograd::variable_list& gradients) const;
  // The whole history, between roots and inputs.
  bool is_whole() const;
  const HistoryBlock& block() const { return history_.blocks[block_]; }
  const graph::Graph& graph() const { return part_ ? *part_ : *recording_.joint; }

  const Recording& recording_;
  const History& history_;
  const size_t block_;
  std::string why_not_;
  std::optional<graph::Graph> part_;   // what the block's root alone needs; none: the recording's whole graph
  std::vector<graph::ValueId> roots_;  // of the whole, or the block's, in graph()
  std::vector<bool> is_seen_;          // beside the block's entries: whether the program has what they stand for
  std::vector<ResultBelow> below_;
  std::vector<graph::ValueId> below_values_;                 // beside below_, in graph()
  std::vector<graph::NodeId> below_made_;                    // beside below_: the last node that makes or changes it
  std::vector<bool> reads_;                                  // beside the recording's inputs; empty: all
  std::vector<std::pair<uint32_t, graph::ValueId>> inputs_;  // those of the recording that it reads, in graph()
  std::unique_ptr<Plan> plan_;
  // Of a block, not of the whole.
  Operations fakes_;
  std::vector<Place> entries_;
  std::vector<std::vector<Place>> exits_;  // beside the block's, their arrivals
};

}  // namespace framejit::torchlib
