// Which results of a graph have a history in common, as autograd has it of the fakes.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/torch/recording.h"

namespace framejit::torchlib {

// The group of each root, beside Recording::roots; groups count from 0. Those of one group share a node of autograd's
// graph, besides leaves and inputs: a backward of one frees what the others need. Those of different groups may be
// differentiated one after the other.
std::vector<uint32_t> root_groups(const Recording& recording);

}  // namespace framejit::torchlib
