// The random numbers of MT19937 (Matsumoto and Nishimura, "Mersenne Twister", ACM TOMACS 8(1), 1998), a state of 624 at
// a time: in vectors, where std::mt19937 gives one after the other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace framejit {

struct MersenneState {
  static constexpr size_t kSize = 624;

  std::array<uint32_t, kSize> words;
  size_t next = kSize;  // the first word whose number has not been drawn
};

// For each result the two next numbers, upper half first: 1 where the low 53 bits of both are below `bound`, else 0. So
// a uniform double of 53 bits in [0, 1) is compared with a probability p, if `bound` is p times 2^53, rounded up.
void draw_below(MersenneState& state, uint64_t bound, std::span<float> results);
void draw_below(MersenneState& state, uint64_t bound, std::span<uint8_t> results);

}  // namespace framejit
