#include "base/windows.h"

#include <gtest/gtest.h>

#include <random>

#include "base/vector_width.h"

namespace framejit {
namespace {

using Pair = WindowShape::Pair;

struct Case {
  WindowShape shape;
  std::vector<float> plane, taps, gradient;
};

std::vector<float> numbers(std::mt19937& engine, int64_t count) {
  std::uniform_real_distribution<float> between(-1, 1);
  std::vector<float> made(static_cast<size_t>(count));
  for (float& number : made) number = between(engine);
  return made;
}

std::vector<Case> cases() {
  std::mt19937 engine(3);
  const auto from = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(engine);
  };
  std::vector<Case> made;
  while (made.size() < 400) {
    WindowShape shape;
    for (size_t i : {0, 1}) {
      shape.plane[i] = from(1, 37);
      shape.window[i] = from(1, 7);
      shape.stride[i] = from(1, 4);
      shape.padding[i] = from(0, 9);
      shape.dilation[i] = from(1, 3);
    }
    const Pair result = shape.result();
    if (result[0] <= 0 || result[1] <= 0) continue;
    made.push_back({shape, numbers(engine, shape.plane[0] * shape.plane[1]), numbers(engine, shape.taps()),
                    numbers(engine, result[0] * result[1])});
  }
  return made;
}

// What meets, one after the other: an element of the plane, a tap and an element of the result.
template <class Body>
void for_each_product(const WindowShape& shape, const Body& body) {
  const Pair result = shape.result();
  for (int64_t row = 0; row < result[0]; ++row)
    for (int64_t column = 0; column < result[1]; ++column)
      for (int64_t y = 0; y < shape.window[0]; ++y)
        for (int64_t x = 0; x < shape.window[1]; ++x) {
          const int64_t from_row = row * shape.stride[0] + y * shape.dilation[0] - shape.padding[0];
          const int64_t from_column = column * shape.stride[1] + x * shape.dilation[1] - shape.padding[1];
          if (from_row < 0 || from_row >= shape.plane[0] || from_column < 0 || from_column >= shape.plane[1]) continue;
          body(static_cast<size_t>(from_row * shape.plane[1] + from_column),
               static_cast<size_t>(y * shape.window[1] + x), static_cast<size_t>(row * result[1] + column));
        }
}

void expect_near(const std::vector<float>& found, const std::vector<float>& expected, const WindowShape& shape) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], 1e-3)
        << "element " << i << ", plane " << shape.plane[0] << " x " << shape.plane[1] << ", window " << shape.window[0]
        << " x " << shape.window[1] << ", stride " << shape.stride[0] << " x " << shape.stride[1] << ", padding "
        << shape.padding[0] << " x " << shape.padding[1] << ", dilation " << shape.dilation[0] << " x "
        << shape.dilation[1];
}

// With the vectors of each processor that this one can stand for.
class WindowsTest : public testing::TestWithParam<VectorWidth> {
  const LimitedVectorWidth limited_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Widths, WindowsTest, testing::Values(VectorWidth::kPlain, VectorWidth::kAvx2));

// Twice: what a plane leaves in the zeros around it, the next one would read.
TEST_P(WindowsTest, SumsAreThoseOfOneElementAfterTheOther) {
  for (const Case& given : cases()) {
    std::vector<float> expected(given.gradient.size(), 0.5f), found(expected.size());
    for_each_product(given.shape,
                     [&](size_t at, size_t tap, size_t to) { expected[to] += given.plane[at] * given.taps[tap]; });
    WindowSums sums(given.shape);
    for (int i = 0; i < 2; ++i) {
      sums.run(given.plane.data(), given.taps, 0.5f, found.data());
      expect_near(found, expected, given.shape);
    }
  }
}

TEST_P(WindowsTest, GradientsOfPlanesAreThoseOfOneElementAfterTheOther) {
  for (const Case& given : cases()) {
    std::vector<float> expected(given.plane.size()), found(expected.size(), 7);
    for_each_product(given.shape,
                     [&](size_t at, size_t tap, size_t to) { expected[at] += given.gradient[to] * given.taps[tap]; });
    PlaneGradient planes(given.shape);
    for (int i = 0; i < 2; ++i) {
      planes.run(given.gradient.data(), given.taps, found.data());
      expect_near(found, expected, given.shape);
    }
  }
}

TEST_P(WindowsTest, GradientsOfWindowsAreAdded) {
  for (const Case& given : cases()) {
    std::vector<float> expected(given.taps.size(), 0.25f), found(given.taps.size(), 0.25f);
    WindowGradient window(given.shape);
    for (int i = 0; i < 2; ++i) {
      for_each_product(given.shape, [&](size_t at, size_t tap, size_t to) {
        expected[tap] += given.plane[at] * given.gradient[to];
      });
      window.add(given.plane.data(), given.gradient.data(), found);
      expect_near(found, expected, given.shape);
    }
  }
}

// The result lies alone in its memory: nothing is written behind it, or before.
TEST_P(WindowsTest, WriteNothingElse) {
  for (const Case& given : cases()) {
    constexpr size_t kAround = 64;
    const auto is_untouched = [&](const std::vector<float>& memory, size_t size) {
      for (size_t i = 0; i < kAround; ++i)
        if (memory[i] != 9 || memory[kAround + size + i] != 9) return false;
      return true;
    };
    std::vector<float> result(given.gradient.size() + 2 * kAround, 9), plane(given.plane.size() + 2 * kAround, 9);
    WindowSums(given.shape).run(given.plane.data(), given.taps, 0, result.data() + kAround);
    PlaneGradient(given.shape).run(given.gradient.data(), given.taps, plane.data() + kAround);
    EXPECT_TRUE(is_untouched(result, given.gradient.size()));
    EXPECT_TRUE(is_untouched(plane, given.plane.size()));
  }
}

}  // namespace
}  // namespace framejit
