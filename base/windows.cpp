#include "base/windows.h"

#include <algorithm>
#include <cstring>

#include "base/vector_width.h"

// How vectors are passed depends on the processor asked for; here all that take one are inlined.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace framejit {
namespace {

using Pair = WindowShape::Pair;

// Rows of a result that are computed together, and taps.
constexpr int64_t kRows = 4, kTaps = 5;
constexpr int64_t kLanes = 8;
using Floats = float __attribute__((vector_size(4 * kLanes)));

#define FRAMEJIT_INLINE inline __attribute__((always_inline))

FRAMEJIT_INLINE Floats load(const float* from) {
  Floats values;
  std::memcpy(&values, from, sizeof values);
  return values;
}
FRAMEJIT_INLINE void store(float* to, const Floats& values) { std::memcpy(to, &values, sizeof values); }

int64_t rounded_up(int64_t number, int64_t to) { return (number + to - 1) / to * to; }
Pair in_vectors(Pair size) { return {rounded_up(size[0], kRows), rounded_up(size[1], kLanes)}; }

struct Taps {
  const int64_t* offsets;
  const float* values;
  size_t count;
};

// Of kRows rows and kLanes columns.
FRAMEJIT_INLINE void sum_block(const float* from, int64_t row_step, const Taps& taps, float first, float* to,
                               int64_t pitch) {
  Floats sums[kRows];
#pragma GCC unroll 8
  for (Floats& sum : sums) sum = Floats{} + first;
  for (size_t t = 0; t < taps.count; ++t) {
    const float* at = from + taps.offsets[t];
#pragma GCC unroll 8
    for (int64_t i = 0; i < kRows; ++i) sums[i] += taps.values[t] * load(at + i * row_step);
  }
#pragma GCC unroll 8
  for (int64_t i = 0; i < kRows; ++i) store(to + i * pitch, sums[i]);
}

// `size`, in whole vectors, is that of `to`.
FRAMEJIT_INLINE void sum_plane(const float* from, int64_t row_step, const Taps& taps, float first, float* to,
                               Pair size) {
  for (int64_t row = 0; row < size[0]; row += kRows)
    for (int64_t column = 0; column < size[1]; column += kLanes)
      sum_block(from + row * row_step + column, row_step, taps, first, to + row * size[1] + column, size[1]);
}

// All but the last row by whole vectors, the next row after what they write too much.
FRAMEJIT_INLINE void copy_rows(const float* from, int64_t pitch, Pair size, float* to) {
  for (int64_t row = 0; row + 1 < size[0]; ++row, from += pitch, to += size[1]) {
    const bool has_room = (size[0] - row - 1) * size[1] >= kLanes;
    if (!has_room) {
      std::memcpy(to, from, static_cast<size_t>(size[1]) * sizeof(float));
      continue;
    }
    for (int64_t column = 0; column < size[1]; column += kLanes) store(to + column, load(from + column));
  }
  std::memcpy(to, from, static_cast<size_t>(size[1]) * sizeof(float));
}

using Words = uint32_t __attribute__((vector_size(4 * kLanes)));
using Pairs = uint64_t __attribute__((vector_size(8 * kLanes)));

// The columns of a row by turns.
FRAMEJIT_INLINE void part_row(const float* from, int64_t columns, float* even, float* odd) {
  int64_t i = 0;
  for (; i + 2 * kLanes <= columns; i += 2 * kLanes) {
    Pairs pairs;
    std::memcpy(&pairs, from + i, sizeof pairs);
    const Words lower = __builtin_convertvector(pairs, Words), upper = __builtin_convertvector(pairs >> 32, Words);
    std::memcpy(even + i / 2, &lower, sizeof lower);
    std::memcpy(odd + i / 2, &upper, sizeof upper);
  }
  for (; i < columns; ++i) (i % 2 == 0 ? even : odd)[i / 2] = from[i];
}

FRAMEJIT_INLINE float sum_of(const Floats& values) {
  float sum = 0;
  for (int64_t i = 0; i < kLanes; ++i) sum += values[i];
  return sum;
}

// What kTaps taps meet in the rows.
FRAMEJIT_INLINE void correlate(const float* from, int64_t row_step, const int64_t* offsets, const float* gradient,
                               Pair size, float* sums) {
  Floats sum[kTaps] = {};
  for (int64_t row = 0; row < size[0]; ++row)
    for (int64_t column = 0; column < size[1]; column += kLanes) {
      const Floats factor = load(gradient + row * size[1] + column);
      const float* at = from + row * row_step + column;
#pragma GCC unroll 8
      for (int64_t i = 0; i < kTaps; ++i) sum[i] += factor * load(at + offsets[i]);
    }
#pragma GCC unroll 8
  for (int64_t i = 0; i < kTaps; ++i) sums[i] += sum_of(sum[i]);
}

#if defined(__x86_64__)
template <auto loop, class... Arguments>
__attribute__((target("avx2,fma"))) void run_wide(Arguments... arguments) {
  loop(arguments...);
}
#endif

// A loop above.
template <auto loop, class... Arguments>
void run_loop(Arguments... arguments) {
#if defined(__x86_64__)
  if (vector_width() != VectorWidth::kPlain) return run_wide<loop>(arguments...);
#endif
  loop(arguments...);
}

// Of a plane that WindowSums reads: `result` in whole vectors.
Pair size_read(const WindowShape& shape, Pair result) {
  Pair size;
  for (size_t i : {0, 1}) size[i] = (result[i] - 1) * shape.stride[i] + (shape.window[i] - 1) * shape.dilation[i] + 1;
  return size;
}

std::vector<int64_t> offsets_of_taps(const WindowShape& shape, const PaddedPlane& plane) {
  std::vector<int64_t> offsets;
  for (int64_t row = 0; row < shape.window[0]; ++row)
    for (int64_t column = 0; column < shape.window[1]; ++column)
      offsets.push_back(row * shape.dilation[0] * plane.row_step() + plane.column(column * shape.dilation[1]));
  return offsets;
}

// A tap meets the element of the plane at p, with its padding, where the window stands at (p - tap * dilation) /
// stride. So all p of one remainder meet the same taps: a phase.

// How far back from p / stride the window may stand.
int64_t reach(const WindowShape& shape, size_t i) {
  return (shape.window[i] - 1) * shape.dilation[i] / shape.stride[i];
}

// The first p / stride of a phase whose p is in the plane, and the one behind the last.
Pair places(const WindowShape& shape, size_t i, int64_t phase) {
  const int64_t begin = shape.padding[i] - phase, end = shape.plane[i] + shape.padding[i] - phase;
  const auto up = [&](int64_t number) { return number <= 0 ? 0 : (number + shape.stride[i] - 1) / shape.stride[i]; };
  return {up(begin), up(end)};
}

Pair size_of_gradient(const WindowShape& shape) {
  Pair size, steps;
  for (size_t i : {0, 1}) steps[i] = places(shape, i, 0)[1];
  steps = in_vectors(steps);
  // The first place of a phase may be any: as many vectors begin there.
  for (size_t i : {0, 1}) size[i] = reach(shape, i) + steps[i] + (i == 0 ? kRows : kLanes);
  return size;
}

}  // namespace

Pair WindowShape::result() const {
  Pair size;
  for (size_t i : {0, 1}) size[i] = (plane[i] + 2 * padding[i] - (window[i] - 1) * dilation[i] - 1) / stride[i] + 1;
  return size;
}

PaddedPlane::PaddedPlane(Pair plane, Pair before, Pair size, int64_t parts)
    : plane_(plane), before_(before), size_(size), parts_(parts), pitch_((size[1] + parts - 1) / parts) {
  values_.resize(static_cast<size_t>(size[0] * row_step()));
}

void PaddedPlane::fill(const float* plane) {
  const int64_t rows = std::min(plane_[0], size_[0] - before_[0]);
  for (int64_t row = 0; row < rows; ++row)
    fill_row(plane + row * plane_[1], values_.data() + (before_[0] + row) * row_step());
}

void PaddedPlane::fill_row(const float* from, float* to) const {
  const int64_t columns = std::min(plane_[1], size_[1] - before_[1]);
  if (columns <= 0) return;
  if (parts_ == 1) {
    std::memcpy(to + before_[1], from, static_cast<size_t>(columns) * sizeof(float));
    return;
  }
  if (parts_ == 2) return run_loop<part_row>(from, columns, to + column(before_[1]), to + column(before_[1] + 1));
  for (int64_t part = 0; part < std::min(parts_, columns); ++part) {
    float* at = to + column(before_[1] + part);
    for (int64_t i = part; i < columns; i += parts_) *at++ = from[i];
  }
}

WindowSums::WindowSums(const WindowShape& shape)
    : shape_(shape),
      result_(shape.result()),
      plane_(shape.plane, shape.padding, size_read(shape, in_vectors(result_)), shape.stride[1]),
      offsets_(offsets_of_taps(shape, plane_)) {
  const Pair size = in_vectors(result_);
  sums_.resize(static_cast<size_t>(size[0] * size[1]));
}

void WindowSums::run(const float* plane, std::span<const float> taps, float first, float* result) {
  const Pair size = in_vectors(result_);
  plane_.fill(plane);
  run_loop<sum_plane>(plane_.row(0), plane_.row_step() * shape_.stride[0],
                      Taps{offsets_.data(), taps.data(), taps.size()}, first, sums_.data(), size);
  run_loop<copy_rows>(sums_.data(), size[1], result_, result);
}

PlaneGradient::PlaneGradient(const WindowShape& shape)
    : shape_(shape), gradient_(shape.result(), {reach(shape, 0), reach(shape, 1)}, size_of_gradient(shape), 1) {
  for (int64_t row = 0; row < shape.stride[0]; ++row)
    for (int64_t column = 0; column < shape.stride[1]; ++column) add_phase({row, column});
  taps_.resize(order_.size());
  const Pair size = size_of_gradient(shape);
  sums_.resize(static_cast<size_t>(size[0] * size[1]));
}

void PlaneGradient::add_phase(Pair phase) {
  Phase made{};
  made.begin = order_.size();
  Pair begin;
  for (size_t i : {0, 1}) {
    const Pair found = places(shape_, i, phase[i]);
    begin[i] = found[0];
    made.size[i] = found[1] - found[0];
    made.first[i] = found[0] * shape_.stride[i] + phase[i] - shape_.padding[i];
  }
  if (made.size[0] <= 0 || made.size[1] <= 0) return;
  made.from = (begin[0] + reach(shape_, 0)) * gradient_.row_step() + begin[1] + reach(shape_, 1);
  const auto meets = [&](size_t i, int64_t tap) { return tap * shape_.dilation[i] % shape_.stride[i] == phase[i]; };
  const auto back = [&](size_t i, int64_t tap) { return (tap * shape_.dilation[i] - phase[i]) / shape_.stride[i]; };
  for (int64_t row = 0; row < shape_.window[0]; ++row)
    for (int64_t column = 0; column < shape_.window[1]; ++column) {
      if (!meets(0, row) || !meets(1, column)) continue;
      order_.push_back(static_cast<size_t>(row * shape_.window[1] + column));
      offsets_.push_back(-back(0, row) * gradient_.row_step() - back(1, column));
    }
  made.end = order_.size();
  phases_.push_back(made);
}

void PlaneGradient::run(const float* gradient, std::span<const float> taps, float* result) {
  gradient_.fill(gradient);
  for (size_t i = 0; i < order_.size(); ++i) taps_[i] = taps[order_[i]];
  for (const Phase& phase : phases_) run_phase(phase, result);
}

void PlaneGradient::run_phase(const Phase& phase, float* result) {
  const Pair whole = in_vectors(phase.size);
  const Taps taps = {offsets_.data() + phase.begin, taps_.data() + phase.begin, phase.end - phase.begin};
  run_loop<sum_plane>(gradient_.row(0) + phase.from, gradient_.row_step(), taps, 0.0f, sums_.data(), whole);
  if (phase.size == shape_.plane) return run_loop<copy_rows>(sums_.data(), whole[1], phase.size, result);
  const float* from = sums_.data();
  float* to = result + phase.first[0] * shape_.plane[1] + phase.first[1];
  for (int64_t row = 0; row < phase.size[0]; ++row, from += whole[1], to += shape_.stride[0] * shape_.plane[1])
    for (int64_t column = 0; column < phase.size[1]; ++column) to[column * shape_.stride[1]] = from[column];
}

WindowGradient::WindowGradient(const WindowShape& shape)
    : size_({shape.result()[0], in_vectors(shape.result())[1]}),
      row_stride_(shape.stride[0]),
      plane_(shape.plane, shape.padding, size_read(shape, in_vectors(shape.result())), shape.stride[1]),
      gradient_(shape.result(), {0, 0}, size_, 1),
      offsets_(offsets_of_taps(shape, plane_)) {
  offsets_.resize(static_cast<size_t>(rounded_up(shape.taps(), kTaps)));
}

void WindowGradient::add(const float* plane, const float* gradient, std::span<float> taps) {
  plane_.fill(plane);
  gradient_.fill(gradient);
  for (size_t tap = 0; tap < taps.size(); tap += kTaps) {
    float sums[kTaps] = {};
    run_loop<correlate>(plane_.row(0), plane_.row_step() * row_stride_, offsets_.data() + tap, gradient_.row(0), size_,
                        sums);
    for (size_t i = 0; i < std::min<size_t>(kTaps, taps.size() - tap); ++i) taps[tap + i] += sums[i];
  }
}

}  // namespace framejit
