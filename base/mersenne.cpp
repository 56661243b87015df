#include "base/mersenne.h"

#include <algorithm>
#include <cstring>

#include "base/vector_width.h"

// How vectors are passed depends on the processor asked for; here all that take one are inlined.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace framejit {
namespace {

constexpr size_t kSize = MersenneState::kSize, kShift = 397;
constexpr uint32_t kUpper = 0x80000000, kLower = 0x7fffffff, kMatrix = 0x9908b0df;

// Vectors of the compiler, which makes two halves of them where the processor's are shorter.
// GCC forgets an attribute that depends on a parameter where it is an alias's.
template <size_t kBytes>
struct Vectors {
  static constexpr size_t kLanes = kBytes / 4;
  typedef uint32_t Words __attribute__((vector_size(kBytes)));
  typedef int64_t Longs __attribute__((vector_size(kBytes)));
  typedef int32_t Bits __attribute__((vector_size(kBytes / 2)));
  typedef uint8_t Bytes __attribute__((vector_size(kBytes / 8)));
};

#define FRAMEJIT_INLINE inline __attribute__((always_inline))

template <class T>
FRAMEJIT_INLINE T load(const uint32_t* from) {
  T words;
  std::memcpy(&words, from, sizeof words);
  return words;
}
template <class T>
FRAMEJIT_INLINE void store(uint32_t* to, const T& words) {
  std::memcpy(to, &words, sizeof words);
}

template <class T>
FRAMEJIT_INLINE T twisted(T word, T after, T shifted) {
  const T mixed = (word & kUpper) | (after & kLower);
  return shifted ^ (mixed >> 1) ^ ((T{} - (after & 1)) & kMatrix);
}

template <class T>
FRAMEJIT_INLINE T tempered(T word) {
  word ^= word >> 11;
  word ^= (word << 7) & 0x9d2c5680;
  word ^= (word << 15) & 0xefc60000;
  return word ^ (word >> 18);
}

// Words from..end, each of which takes the one at `shifted` beyond it, which is at least a vector away.
template <class V>
FRAMEJIT_INLINE void twist(uint32_t* words, size_t from, size_t end, ptrdiff_t shifted) {
  size_t i = from;
  using Words = typename V::Words;
  for (; i + V::kLanes <= end; i += V::kLanes)
    store(words + i, twisted(load<Words>(words + i), load<Words>(words + i + 1), load<Words>(words + i + shifted)));
  for (; i < end; ++i) words[i] = twisted(words[i], words[i + 1], words[i + shifted]);
}

template <class V>
FRAMEJIT_INLINE void make_next_state(uint32_t* words) {
  constexpr auto kBack = static_cast<ptrdiff_t>(kShift) - static_cast<ptrdiff_t>(kSize);
  twist<V>(words, 0, kSize - kShift, kShift);
  twist<V>(words, kSize - kShift, kSize - 1, kBack);
  words[kSize - 1] = twisted(words[kSize - 1], words[0], words[kShift - 1]);
}

template <class V>
FRAMEJIT_INLINE void temper(const uint32_t* words, uint32_t* numbers, size_t count) {
  size_t i = 0;
  for (; i + V::kLanes <= count; i += V::kLanes) store(numbers + i, tempered(load<typename V::Words>(words + i)));
  for (; i < count; ++i) numbers[i] = tempered(words[i]);
}

constexpr int64_t kDrawn = (int64_t{1} << 53) - 1;

// Of all bits, where there is a result.
template <class V>
FRAMEJIT_INLINE void put(float* results, const typename V::Bits& drawn) {
  const typename V::Bits ones = drawn & 0x3f800000;  // the bits of 1.0f
  std::memcpy(results, &ones, sizeof ones);
}
template <class V>
FRAMEJIT_INLINE void put(uint8_t* results, const typename V::Bits& drawn) {
  const auto ones = __builtin_convertvector(drawn & 1, typename V::Bytes);
  std::memcpy(results, &ones, sizeof ones);
}

template <class V, class T>
FRAMEJIT_INLINE void compare(const uint32_t* numbers, int64_t bound, T* results, size_t count) {
  constexpr size_t kPairs = V::kLanes / 2;
  size_t i = 0;
  for (; i + kPairs <= count; i += kPairs) {
    typename V::Longs pairs;
    std::memcpy(&pairs, numbers + 2 * i, sizeof pairs);
    const typename V::Longs halves = (pairs << 32) | ((pairs >> 32) & 0xffffffff);
    put<V>(results + i, __builtin_convertvector((halves & kDrawn) < bound, typename V::Bits));
  }
  for (; i < count; ++i) {
    const auto pair = static_cast<int64_t>(uint64_t{numbers[2 * i]} << 32 | numbers[2 * i + 1]);
    results[i] = static_cast<T>((pair & kDrawn) < bound);
  }
}

template <class V, class T>
FRAMEJIT_INLINE void draw(MersenneState& state, int64_t bound, std::span<T> results) {
  std::array<uint32_t, kSize + 1> numbers;  // one may be left of the state before
  size_t left = 0, done = 0;
  while (done < results.size()) {
    if (state.next == kSize) {
      make_next_state<V>(state.words.data());
      state.next = 0;
    }
    const size_t taken = std::min(kSize - state.next, 2 * (results.size() - done) - left);
    temper<V>(state.words.data() + state.next, numbers.data() + left, taken);
    state.next += taken;
    const size_t pairs = (left + taken) / 2;
    compare<V>(numbers.data(), bound, results.data() + done, pairs);
    done += pairs;
    if (2 * pairs < left + taken) {
      numbers[0] = numbers[2 * pairs];
      left = 1;
    } else {
      left = 0;
    }
  }
}

#if defined(__x86_64__)
template <class T>
__attribute__((target("avx2,fma"))) void draw_avx2(MersenneState& state, int64_t bound, std::span<T> results) {
  draw<Vectors<32>>(state, bound, results);
}
template <class T>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) void draw_avx512(MersenneState& state, int64_t bound,
                                                                               std::span<T> results) {
  draw<Vectors<64>>(state, bound, results);
}
#endif

template <class T>
void draw_here(MersenneState& state, uint64_t bound, std::span<T> results) {
#if defined(__x86_64__)
  const VectorWidth width = vector_width();
  if (width == VectorWidth::kAvx512) return draw_avx512(state, static_cast<int64_t>(bound), results);
  if (width == VectorWidth::kAvx2) return draw_avx2(state, static_cast<int64_t>(bound), results);
#endif
  draw<Vectors<32>>(state, static_cast<int64_t>(bound), results);
}

}  // namespace

void draw_below(MersenneState& state, uint64_t bound, std::span<float> results) { draw_here(state, bound, results); }
void draw_below(MersenneState& state, uint64_t bound, std::span<uint8_t> results) { draw_here(state, bound, results); }

}  // namespace framejit
