// Which operators of a backward need what the forward has saved.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/torch/recording.h"

namespace framejit::torchlib {

// Beside BackwardGraph::saved: how many operators on gradients read it, or what is computed from it before any gradient
// has a part.
std::vector<uint32_t> count_readers(const BackwardGraph& backward);

}  // namespace framejit::torchlib
