// Totals since the last reset. Written under the interpreter lock.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace framejit::runtime {

struct Stats {
  uint64_t captures = 0;  // segments captured
  uint64_t graphs = 0;    // of them, with at least one operator
  uint64_t ops = 0;       // operators in these graphs
  uint64_t breaks = 0;    // captures that end in a graph break
  uint64_t fallbacks =
      0;  // segments that run eagerly: they cannot be captured, have too many entries, or met an internal error
  uint64_t hits = 0;        // runs of a captured segment
  uint64_t misses = 0;      // calls for which no entry fitted
  uint64_t shadowed = 0;    // calls compared with eager, under FRAMEJIT_SHADOW
  uint64_t unshadowed = 0;  // calls that were to be, and reach what cannot be put back
  double capture_s = 0;     // capture and compilation, wall clock
  std::map<std::string, uint64_t> break_reasons;
};

}  // namespace framejit::runtime
