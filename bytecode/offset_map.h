// Where the instructions of a regenerated code object come from: its code units to byte offsets of the base's code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace framejit::bytecode {

class OffsetMap {
 public:
  // In order: the instruction at `unit` is a copy of the one at `offset`, or was written for it.
  void add(uint32_t unit, uint32_t offset, bool copied) {
    if (!runs_.empty() && runs_.back().copied == copied && offset == runs_.back().at(unit)) return;
    runs_.push_back({unit, offset, copied});
  }
  // Of the unit that an instruction itself has, behind its prefixes.
  uint32_t offset_of(uint32_t unit) const {
    auto next =
        std::upper_bound(runs_.begin(), runs_.end(), unit, [](uint32_t u, const Run& run) { return u < run.unit; });
    return next == runs_.begin() ? 0 : (next - 1)->at(unit);
  }

 private:
  // Copies that follow each other lie as far apart as their originals.
  struct Run {
    uint32_t unit;
    uint32_t offset;
    bool copied;
    uint32_t at(uint32_t u) const { return copied ? offset + 2 * (u - unit) : offset; }
  };
  std::vector<Run> runs_;
};

}  // namespace framejit::bytecode
