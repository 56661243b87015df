// What became of frozen parameters in this process.
#pragma once

#include <cstdint>

namespace framejit::torchlib {

struct FrozenStats {
  uint64_t computed = 0;  // how often what is frozen was computed
  uint64_t packed = 0;    // weights that got oneDNN's layout, in all graphs
};
FrozenStats frozen_stats();

}  // namespace framejit::torchlib
