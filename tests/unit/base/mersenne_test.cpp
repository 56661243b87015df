#include "base/mersenne.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/vector_width.h"

namespace framejit {
namespace {

// As std::mt19937 begins (C++ standard, [rand.eng.mers]).
MersenneState seeded(uint32_t seed) {
  MersenneState state;
  state.words[0] = seed;
  for (uint32_t i = 1; i < MersenneState::kSize; ++i)
    state.words[i] = 1812433253 * (state.words[i - 1] ^ (state.words[i - 1] >> 30)) + i;
  return state;
}

constexpr double kScale = 9007199254740992.0;  // 2^53

std::vector<float> drawn_one_by_one(std::mt19937& engine, double p, size_t count) {
  std::vector<float> results;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t upper = engine(), lower = engine();
    const double uniform = static_cast<double>((upper << 32 | lower) & ((uint64_t{1} << 53) - 1)) / kScale;
    results.push_back(uniform < p ? 1.0f : 0.0f);
  }
  return results;
}

std::vector<float> drawn(MersenneState& state, double p, size_t count) {
  std::vector<float> results(count, -1.0f);
  draw_below(state, static_cast<uint64_t>(std::ceil(p * kScale)), results);
  return results;
}

// With the vectors of each processor that this one can stand for.
class Mersenne : public testing::TestWithParam<VectorWidth> {
  const LimitedVectorWidth limited_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Widths, Mersenne,
                         testing::Values(VectorWidth::kPlain, VectorWidth::kAvx2, VectorWidth::kAvx512));

TEST_P(Mersenne, DrawsWhatTheEngineOfTheLibraryDraws) {
  std::mt19937 engine(5);
  MersenneState state = seeded(5);
  for (double p : {0.9, 0.5, 1e-3, 0.0, 1.0})
    for (size_t count : {0, 1, 2, 3, 310, 311, 312, 313, 623, 624, 625, 10000})
      EXPECT_EQ(drawn(state, p, count), drawn_one_by_one(engine, p, count)) << p << " " << count;
}

TEST_P(Mersenne, DrawsTheSameAsBytes) {
  MersenneState state = seeded(5), other = seeded(5);
  for (double p : {0.9, 0.5, 1e-3, 0.0, 1.0})
    for (size_t count : {0, 1, 2, 3, 7, 311, 313, 625, 10001}) {
      std::vector<uint8_t> bytes(count, 7);
      draw_below(other, static_cast<uint64_t>(std::ceil(p * kScale)), bytes);
      EXPECT_EQ(std::vector<float>(bytes.begin(), bytes.end()), drawn(state, p, count)) << p << " " << count;
    }
  EXPECT_EQ(state.words, other.words);
  EXPECT_EQ(state.next, other.next);
}

// After an odd count of numbers a pair lies across two states.
TEST_P(Mersenne, BeginsAtAnyWord) {
  for (size_t skipped = 1; skipped + 2 < MersenneState::kSize; skipped += 2) {
    std::mt19937 engine(7);
    MersenneState state = seeded(7);
    drawn(state, 0.5, 1);
    engine.discard(skipped + 2);
    state.next += skipped;
    ASSERT_EQ(drawn(state, 0.25, 700), drawn_one_by_one(engine, 0.25, 700)) << skipped;
  }
}

TEST_P(Mersenne, ComparesAllOf53Bits) {
  std::mt19937 engine(11);
  const uint64_t upper = engine(), lower = engine();
  const uint64_t number = (upper << 32 | lower) & ((uint64_t{1} << 53) - 1);
  for (uint64_t bound : {number, number + 1}) {
    MersenneState fresh = seeded(11);
    float result = -1;
    draw_below(fresh, bound, std::span(&result, 1));
    EXPECT_EQ(result, number < bound ? 1.0f : 0.0f);
  }
}

}  // namespace
}  // namespace framejit
