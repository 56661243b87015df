#include "codegen/kernels/loop.h"

#include <gtest/gtest.h>

namespace framejit::codegen {
namespace {

using graph::DType;
using graph::TensorMeta;

TensorMeta tensor(std::vector<int64_t> sizes) { return TensorMeta::fresh(sizes, DType::kF32, {}); }

Loop loop_of(const TensorMeta& result, std::vector<TensorMeta> others = {}, bool reduces = false) {
  others.push_back(result);
  return make_loop(result, others, reduces);
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

TEST(LoopTest, ReductionsHaveTheLastDimensionAsRow) {
  const TensorMeta a = tensor({4, 5, 6}), sums = tensor({4, 5, 1});
  const Loop loop = loop_of(a, {sums}, true);
  EXPECT_EQ(loop.sizes, (std::vector<int64_t>{20, 6}));
  EXPECT_EQ(loop.strides[0], (std::vector<int64_t>{4, 0}));
  const TensorMeta line = tensor({7});
  EXPECT_EQ(loop_of(line, {line}, true).sizes, std::vector<int64_t>{7});
}

TEST(LoopTest, NumbersAreARowOfOne) {
  const TensorMeta a = tensor({});
  EXPECT_EQ(loop_of(a).sizes, std::vector<int64_t>{1});
}

}  // namespace
}  // namespace framejit::codegen
