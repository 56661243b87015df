// Sums over a window that moves over a plane, in vectors: what a depthwise convolution is made of, and its gradients.
// A plane is rows of columns of f32, one after the other, and a window is its taps in that order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace framejit {

// Rows first. The plane has `padding` zeros on each side; the window moves by `stride`, its taps are `dilation` apart.
struct WindowShape {
  using Pair = std::array<int64_t, 2>;
  Pair plane, window, stride, padding, dilation;

  Pair result() const;
  int64_t taps() const { return window[0] * window[1]; }
};

// A plane with zeros around it, so that no tap has to ask where the plane ends. Columns lie in as many parts as a
// window moves by at once: neighbours in a result read neighbours. Zeros times a tap that is not finite are not zero.
class PaddedPlane {
 public:
  using Pair = WindowShape::Pair;
  // `before`: zeros in front of the first row and column. `size`: with all zeros.
  PaddedPlane(Pair plane, Pair before, Pair size, int64_t parts);

  void fill(const float* plane);
  const float* row(int64_t row) const { return values_.data() + row * pitch_ * parts_; }
  int64_t row_step() const { return pitch_ * parts_; }
  // From a row to an element of it.
  int64_t column(int64_t at) const { return at % parts_ * pitch_ + at / parts_; }

 private:
  void fill_row(const float* from, float* to) const;

  Pair plane_, before_, size_;
  int64_t parts_, pitch_;
  std::vector<float> values_;
};

// Each keeps what it works in: one for a thread, for as many planes of the shape as it has.

class WindowSums {
 public:
  explicit WindowSums(const WindowShape& shape);
  // `result`, of shape.result(): of each place of the window `first` and the sum of the plane's elements times taps.
  void run(const float* plane, std::span<const float> taps, float first, float* result);

 private:
  const WindowShape shape_;
  const WindowShape::Pair result_;
  PaddedPlane plane_;
  std::vector<int64_t> offsets_;  // by tap
  std::vector<float> sums_;
};

class PlaneGradient {
 public:
  explicit PlaneGradient(const WindowShape& shape);
  // `result`, of shape.plane: what a gradient of the result of WindowSums gives for the plane.
  void run(const float* gradient, std::span<const float> taps, float* result);

 private:
  // Elements of the plane that the same taps meet: every stride-th one of every stride-th row.
  struct Phase {
    WindowShape::Pair first;  // element
    WindowShape::Pair size;
    int64_t from;       // in the gradient
    size_t begin, end;  // of its taps
  };
  void add_phase(WindowShape::Pair phase);
  void run_phase(const Phase& phase, float* result);

  const WindowShape shape_;
  PaddedPlane gradient_;
  std::vector<Phase> phases_;
  std::vector<size_t> order_;     // of the taps, by phase
  std::vector<int64_t> offsets_;  // as the order
  std::vector<float> taps_, sums_;
};

class WindowGradient {
 public:
  explicit WindowGradient(const WindowShape& shape);
  // Adds to `taps` what a gradient of the result of WindowSums gives for the taps.
  void add(const float* plane, const float* gradient, std::span<float> taps);

 private:
  const WindowShape::Pair size_;  // of the gradient, its columns in whole vectors
  const int64_t row_stride_;
  PaddedPlane plane_, gradient_;
  std::vector<int64_t> offsets_;  // by tap, and some more
};

}  // namespace framejit
