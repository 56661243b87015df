// Results of a captured graph that lie in the history of its other results: a second derivative of these goes on
// through them, as eager's does, so that hooks on them run and gradients may be asked for there.
#pragma once

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <vector>

#include "runtime/torch/history_blocks.h"
#include "runtime/torch/recording.h"

namespace framejit::torchlib {

struct ResultBelow {
  graph::ValueId value;        // in Recording::joint
  torch::autograd::Edge fake;  // what leads there in the fakes' graph
  BlockExit::To to;            // as that of an exit that leads there: kBlock or kView
  uint32_t block = 0;
  uint32_t index = 0;
};

// Those that a backward of the block may come to behind it.
std::vector<ResultBelow> results_below(const Recording& recording, const History& history, size_t block);

// Where they are in the history of one call, whose node for the block this is; beside them. `sums`: its nodes have an
// edge for each exit rather than for each arrival.
torch::autograd::edge_list edges_to(const std::vector<ResultBelow>& results, const History& history, size_t block,
                                    const torch::autograd::Node& node, bool sums);

}  // namespace framejit::torchlib
