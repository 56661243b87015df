#include "codegen/kernels/loop.h"

#include <gtest/gtest.h>

namespace framejit::codegen {
namespace {

using graph::DType;
using graph::TensorMeta;

TensorMeta tensor(std::vector<int64_t> sizes) { return TensorMeta::fresh(sizes, DType::kF32, {}); }

Loop loop_of(const TensorMeta& result, std::vector<TensorMeta> others = {}, Dims reduced = {}) {
  others.push_back(result);
  return make_loop(result, others, reduced);
}

Dims dims(std::vector<size_t> set) {
  Dims made;
  for (size_t d : set) made.set(d);
  return made;
}

TEST(LoopTest, ContiguousTensorsAreOneRow) {
  const TensorMeta a = tensor({4, 5, 6});
  const Loop loop = loop_of(a, {a});
  EXPECT_EQ(loop.sizes, std::vector<int64_t>{120});
  EXPECT_EQ(loop.rows(), 1);
  EXPECT_EQ(access_of(loop, 0, DType::kF32), Access::kContiguous);
}

TEST(LoopTest, BroadcastDimensionsStayApart) {
  const TensorMeta a = tensor({4, 5, 6}), bias = tensor({6}), column = tensor({5, 1});
  const Loop with_bias = loop_of(a, {bias});
  EXPECT_EQ(with_bias.sizes, (std::vector<int64_t>{20, 6}));
  EXPECT_EQ(with_bias.strides[0], (std::vector<int64_t>{0, 4}));
  const Loop with_column = loop_of(a, {column});
  EXPECT_EQ(with_column.sizes, (std::vector<int64_t>{4, 5, 6}));
  EXPECT_EQ(access_of(with_column, 0, DType::kF32), Access::kUniform);
}

TEST(LoopTest, FollowsTheOrderOfMemory) {
  TensorMeta a = tensor({6, 4});
  a.strides[0] = 1;
  a.strides[1] = 6;
  const TensorMeta other = tensor({6, 4});
  const Loop loop = loop_of(a, {other});
  EXPECT_EQ(loop.sizes, (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(access_of(loop, 0, DType::kF32), Access::kStrided);
  EXPECT_EQ(access_of(loop, 1, DType::kF32), Access::kContiguous);
}

TEST(LoopTest, ReductionsOfTheLastDimensionHaveItAsRow) {
  const TensorMeta a = tensor({4, 5, 6}), sums = tensor({4, 5, 1});
  const Loop loop = loop_of(a, {sums}, dims({2}));
  EXPECT_EQ(loop.sizes, (std::vector<int64_t>{20, 6}));
  EXPECT_EQ(loop.strides[0], (std::vector<int64_t>{4, 0}));
  EXPECT_EQ(loop.depth, 1u);
  const TensorMeta line = tensor({7});
  EXPECT_EQ(loop_of(line, {line}, dims({0})).sizes, std::vector<int64_t>{7});
}

TEST(LoopTest, ReductionsOfLastDimensionsHaveThemAsOne) {
  const TensorMeta a = tensor({4, 5, 6}), sums = tensor({4, 1, 1});
  const Loop loop = loop_of(a, {sums}, dims({1, 2}));
  EXPECT_EQ(loop.sizes, (std::vector<int64_t>{4, 30}));
  EXPECT_EQ(loop_of(a, {tensor({1, 1, 1})}, dims({0, 1, 2})).sizes, std::vector<int64_t>{120});
}

TEST(LoopTest, ARowOfSeveralStretchesIsANest) {
  const TensorMeta a = tensor({2, 3, 4, 5}), sums = tensor({1, 3, 1, 1}), images = tensor({2, 1, 1, 1});
  const Loop loop = loop_of(a, {sums, images}, dims({0, 2, 3}));
  EXPECT_EQ(loop.sizes, (std::vector<int64_t>{3, 2, 20}));
  EXPECT_EQ(loop.strides, (std::vector<std::vector<int64_t>>{{4, 0, 0}, {0, 4, 0}, {80, 240, 4}}));
  EXPECT_EQ(loop.depth, 2u);
  EXPECT_EQ(loop.outer(), 1u);
  EXPECT_EQ(loop.rows(), 3);
  EXPECT_EQ(loop.row(), 40);
  EXPECT_EQ(access_of(loop, 0, DType::kF32), Access::kUniform);
  EXPECT_EQ(access_of(loop, 1, DType::kF32), Access::kStretched);
  EXPECT_EQ(access_of(loop, 2, DType::kF32), Access::kContiguous);
}

TEST(LoopTest, ARowThatNobodyWalksAsTwoIsOfThree) {
  const TensorMeta a = tensor({2, 3, 4, 5}), column = tensor({4, 1});
  EXPECT_EQ(loop_of(a, {column}, dims({0, 2, 3})).sizes, (std::vector<int64_t>{3, 2, 4, 5}));
}

TEST(LoopTest, NumbersAreARowOfOne) {
  const TensorMeta a = tensor({});
  EXPECT_EQ(loop_of(a).sizes, std::vector<int64_t>{1});
}

}  // namespace
}  // namespace framejit::codegen
