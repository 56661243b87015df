#include "codegen/kernels/kernel_builder.h"

#include <gtest/gtest.h>

namespace framejit::codegen {
namespace {

using graph::DType;
using Op = graph::ExpressionOp;

class KernelBuilderTest : public testing::Test {
 protected:
  KernelBuilderTest() { b_.kernel().buffers = {{DType::kF32, Access::kContiguous}}; }
  // The kernel that stores a value of this type.
  std::string text_of(int16_t value, DType dtype) {
    b_.kernel().buffers.push_back({dtype, Access::kContiguous, true});
    b_.store(1, value);
    std::string text = to_string(b_.take());
    return text.substr(text.find('\n') + 1);
  }
  KernelBuilder b_;
};

TEST_F(KernelBuilderTest, EqualStepsAreOne) {
  const int16_t x = b_.load(0);
  EXPECT_EQ(b_.load(0), x);
  EXPECT_EQ(b_.compute(Op::kSin, {x, -1, -1}), b_.compute(Op::kSin, {x, -1, -1}));
}

TEST_F(KernelBuilderTest, ConstantsFold) {
  const int16_t sum = b_.compute(Op::kAdd, {b_.number(2, DType::kF32), b_.number(3, DType::kF32), -1});
  EXPECT_EQ(sum, b_.number(5, DType::kF32));
  const int16_t less = b_.compute(Op::kLess, {b_.number(2, DType::kF32), b_.number(3, DType::kF32), -1});
  EXPECT_EQ(b_.known_truth(less), true);
  EXPECT_EQ(b_.known_truth(b_.compute(Op::kBitNot, {less, -1, -1})), false);
}

TEST_F(KernelBuilderTest, PowersOfSmallWholeNumbersAreProducts) {
  const int16_t x = b_.load(0);
  const int16_t cube = b_.compute(Op::kPow, {x, b_.number(3, DType::kF32), -1});
  EXPECT_EQ(text_of(cube, DType::kF32),
            "  %0 = load 0 : f32\n  %1 = * %0, %0 : f32\n  %2 = * %1, %0 : f32\n  store 1, %2\n}\n");
}

TEST_F(KernelBuilderTest, FactorOfOneIsNone) {
  const int16_t x = b_.load(0);
  EXPECT_EQ(b_.compute(Op::kMultiply, {x, b_.number(1, DType::kF32), -1}), x);
}

TEST_F(KernelBuilderTest, StepsThatNothingNeedsGo) {
  const int16_t x = b_.load(0);
  b_.compute(Op::kSin, {x, -1, -1});
  EXPECT_EQ(text_of(x, DType::kF32), "  %0 = load 0 : f32\n  store 1, %0\n}\n");
}

TEST_F(KernelBuilderTest, HalfTypesAreRounded) {
  const int16_t x = b_.load(0);
  EXPECT_EQ(b_.rounded(x, DType::kF32), x);
  EXPECT_EQ(text_of(b_.rounded(x, DType::kF16), DType::kF16),
            "  %0 = load 0 : f32\n  %1 = round %0 to f16 : f32\n  store 1, %1\n}\n");
}

TEST_F(KernelBuilderTest, WhatKernelsDoNotHaveFails) {
  const int16_t x = b_.load(0);
  b_.convert(x, DType::kI32);  // what a float does not hold in an integer is the compiler's choice
  EXPECT_TRUE(b_.failed());
  KernelBuilder other;
  other.compute(Op::kDivide, {other.number(1, DType::kI64), other.number(2, DType::kI64), -1});
  EXPECT_TRUE(other.failed());
}

TEST_F(KernelBuilderTest, FactsOfSteps) {
  const int16_t x = b_.load(0);
  const int16_t sum = b_.reduce(Op::kSum, x);
  const int16_t scaled = b_.compute(Op::kMultiply, {x, sum, -1});
  b_.reduce(Op::kLargest, scaled);
  const std::vector<StepFacts> facts = facts_of(b_.kernel());
  EXPECT_FALSE(facts[0].uniform);
  EXPECT_TRUE(facts[1].uniform);
  EXPECT_EQ(facts[1].level, 1);
  EXPECT_FALSE(facts[2].uniform);
  EXPECT_EQ(facts[2].level, 1);
  EXPECT_EQ(facts[3].level, 2);
}

}  // namespace
}  // namespace framejit::codegen
