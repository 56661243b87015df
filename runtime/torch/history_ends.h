// The order in which eager's engine comes to the leaves of a history, which hooks of these can tell.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <vector>

#include "runtime/torch/history_blocks.h"
#include "runtime/torch/recording.h"

namespace framejit::torchlib {

struct PlacedOperation {
  const torch::autograd::Node* node;
  uint32_t block;
};

// Makes History::ends, and gives the exits of each block their order. `operations`: of the fakes' graph, which is cut,
// in the order in which they run.
void find_ends(History& history, const Recording& recording, const std::vector<PlacedOperation>& operations);

}  // namespace framejit::torchlib
