// Which results of a graph have a history in common, as autograd has it of the fakes.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/torch/recording.h"

namespace framejit::torchlib {

// Groups of roots whose gradients arrive at an input in common, where the order of the sum matters, directly or through
// a third. They are one node of autograd's graph, which adds gradients up in eager's order; what lies behind the inputs
// of others is not walked.
struct RootCluster {
  std::vector<uint32_t> roots;   // in Recording::roots
  std::vector<uint32_t> inputs;  // in Recording::differentiable_inputs
};

struct RootGroups {
  // The group of each root, beside Recording::roots; groups count from 0. Those of one group share a node of autograd's
  // graph, besides leaves and inputs: a backward of one frees what the others need. Those of different groups may be
  // differentiated one after the other.
  std::vector<uint32_t> group_of;
  size_t count = 0;
  std::vector<RootCluster> clusters;
};

RootGroups root_groups(const Recording& recording);

}  // namespace framejit::torchlib
