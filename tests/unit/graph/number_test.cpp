#include "graph/number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/graph.h"
#include "graph/number_order.h"
#include "graph/parse.h"

namespace framejit::graph {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

TEST(Number, ComputesAsPython) {
  EXPECT_EQ(compute_number(NumberOp::kAdd, 0.1, 0.2), 0.1 + 0.2);
  EXPECT_EQ(compute_number(NumberOp::kSubtract, 1, 0.9), 1 - 0.9);
  EXPECT_EQ(compute_number(NumberOp::kMultiply, 1e300, 1e300), kInf);
  EXPECT_EQ(compute_number(NumberOp::kDivide, 1, 3), 1.0 / 3);
  EXPECT_EQ(compute_number(NumberOp::kPower, 0.999, 7), std::pow(0.999, 7));
  EXPECT_EQ(compute_number(NumberOp::kPower, -2, 3), -8);
  EXPECT_EQ(compute_number(NumberOp::kPower, kNan, 0), 1);
  EXPECT_EQ(compute_number(NumberOp::kPower, kInf, 0.5), kInf);
  EXPECT_EQ(compute_number(NumberOp::kSqrt, 2, 0), std::sqrt(2.0));
  EXPECT_TRUE(std::signbit(*compute_number(NumberOp::kNegate, 0, 0)));
}

TEST(Number, KeepsWhatASumLoses) {
  EXPECT_EQ(compute_number(NumberOp::kLost, 1e100, 1.0), 1.0);
  EXPECT_EQ(compute_number(NumberOp::kLost, 1.0, 1e100), 1.0);
  EXPECT_EQ(compute_number(NumberOp::kRestore, 2.0, 0.5), 2.5);
  EXPECT_EQ(compute_number(NumberOp::kRestore, kInf, kNan), kInf);
  EXPECT_TRUE(std::signbit(*compute_number(NumberOp::kRestore, -0.0, 0.0)));
}

TEST(Number, IsNoneWherePythonRaises) {
  EXPECT_FALSE(compute_number(NumberOp::kDivide, 1, 0));
  EXPECT_FALSE(compute_number(NumberOp::kDivide, 0, -0.0));
  EXPECT_FALSE(compute_number(NumberOp::kPower, 0, -1));
  EXPECT_FALSE(compute_number(NumberOp::kPower, 10, 400));  // OverflowError
  EXPECT_FALSE(compute_number(NumberOp::kPower, -2, 0.5));  // a complex number
  EXPECT_FALSE(compute_number(NumberOp::kSqrt, -1, 0));
}

TEST(Number, FitsWhereATensorsElementsCanHoldIt) {
  EXPECT_EQ(compute_number(NumberOp::kFitF32, 3e38, 0), 3e38);
  EXPECT_FALSE(compute_number(NumberOp::kFitF32, 4e38, 0));
  EXPECT_EQ(compute_number(NumberOp::kFitF32, kInf, 0), kInf);
  EXPECT_FALSE(compute_number(NumberOp::kFitF16, 7e4, 0));
  EXPECT_FALSE(fit_op(DType::kF64));
  EXPECT_EQ(fit_op(DType::kC64), NumberOp::kFitF32);
}

std::vector<bool> order_of(const char* text, OutsideMemory outside = OutsideMemory::kLiesApart) {
  const Graph graph = parse_graph(text).value();
  return nodes_of_numbers(graph, std::vector<bool>(graph.node_count()), outside);
}

TEST(Number, ComparesAsFloatsDo) {
  const bool expected[][6] = {{true, true, false, true, false, false},
                              {false, true, true, false, false, true},
                              {false, false, false, true, false, false}};
  const double pairs[][2] = {{1, 2}, {0.0, -0.0}, {kNan, kNan}};
  for (size_t pair = 0; pair < 3; ++pair)
    for (int op = 0; op < 6; ++op) {
      EXPECT_EQ(compare_numbers(op, pairs[pair][0], pairs[pair][1]), expected[pair][op]) << pair << " " << op;
      for (bool outcome : {false, true}) {
        const NumberComparison unpacked = NumberComparison::unpacked(NumberComparison{op, outcome}.packed());
        EXPECT_EQ(unpacked.op, op);
        EXPECT_EQ(unpacked.outcome, outcome);
      }
    }
  EXPECT_EQ(to_string(NumberComparison{1, false}, "0.5"), "<= 0.5) is False");
}

TEST(NumberOrder, HasNothingToMoveWhereNothingRaises) {
  EXPECT_TRUE(order_of(R"(graph @g (%0: tensor<f32, cpu>) {
  %1 = framejit.number_item(%0) : tensor<f64, cpu, wrapped>
  return %1
})")
                  .empty());
}

TEST(NumberOrder, KnowsThatADivisionByAConstantGoesWell) {
  const char* by_two = R"(graph @g (%0: tensor<f32, cpu>) {
  %1 = framejit.number_item(%0) : tensor<f64, cpu, wrapped>
  %2 = framejit.number_divide(%1, 2.0) : tensor<f64, cpu, wrapped>
  return %2
})";
  EXPECT_TRUE(order_of(by_two).empty());
  const char* by_zero = R"(graph @g (%0: tensor<f32, cpu>) {
  %1 = framejit.number_item(%0) : tensor<f64, cpu, wrapped>
  %2 = framejit.number_divide(%1, 0.0) : tensor<f64, cpu, wrapped>
  return %2
})";
  EXPECT_EQ(order_of(by_zero), (std::vector<bool>{true, true}));
}

TEST(NumberOrder, MovesTheCountOfStepsBeforeWritesToParameters) {
  EXPECT_EQ(order_of(R"(graph @g (%0: tensor<f32, cpu>, %1: tensor<f32, cpu>, %2: tensor<64xf32, cpu>) {
  %3 = aten.add_.Tensor(%0, 1, 1) : tensor<f32, cpu> same %0
  %4 = aten.mul_.Tensor(%2, 0.5) : tensor<64xf32, cpu> same %2
  %5 = aten.add_.Tensor(%1, 1, 1) : tensor<f32, cpu> same %1
  %6 = framejit.number_item(%5) : tensor<f64, cpu, wrapped>
  %7 = framejit.number_divide(1.0, %6) : tensor<f64, cpu, wrapped>
  %8 = aten.mul_.Tensor(%4, %7) : tensor<64xf32, cpu> same %4
  return %8
})"),
            (std::vector<bool>{false, false, true, true, true, false}));
}

TEST(NumberOrder, LeavesReadsBehindWritesThatMayOverlap) {
  const char* written_in_place = R"(graph @g (%0: tensor<4xf32, cpu>, %1: tensor<4xf32, cpu>) {
  %2 = aten.mul_.Tensor(%0, 0.75) : tensor<4xf32, cpu> same %0
  %3 = aten.clone(%1, none) : tensor<4xf32, cpu>
  %4 = aten.mean(%3, none) : tensor<f32, cpu>
  %5 = framejit.number_item(%4) : tensor<f64, cpu, wrapped>
  %6 = framejit.number_divide(1.0, %5) : tensor<f64, cpu, wrapped>
  return %6
})";
  EXPECT_EQ(order_of(written_in_place), (std::vector<bool>{false, true, true, true, true}));
  EXPECT_EQ(order_of(written_in_place, OutsideMemory::kMayOverlap), (std::vector<bool>{true, true, true, true, true}));
  const char* large = R"(graph @g (%0: tensor<64xf32, cpu>, %1: tensor<f32, cpu>) {
  %2 = aten.mul_.Tensor(%0, 0.75) : tensor<64xf32, cpu> same %0
  %3 = framejit.number_item(%1) : tensor<f64, cpu, wrapped>
  %4 = framejit.number_divide(1.0, %3) : tensor<f64, cpu, wrapped>
  return %4
})";
  EXPECT_EQ(order_of(large), (std::vector<bool>{false, true, true}));
  EXPECT_EQ(order_of(large, OutsideMemory::kMayOverlap), (std::vector<bool>{false, false, false}));
}

TEST(NumberOrder, LeavesWhatDependsOnLargeTensors) {
  EXPECT_EQ(order_of(R"(graph @g (%0: tensor<64xf32, cpu>) {
  %1 = aten.mul_.Tensor(%0, 0.5) : tensor<64xf32, cpu> same %0
  %2 = aten.sum(%1, none) : tensor<f32, cpu>
  %3 = framejit.number_item(%2) : tensor<f64, cpu, wrapped>
  %4 = framejit.number_divide(1.0, %3) : tensor<f64, cpu, wrapped>
  return %4
})"),
            (std::vector<bool>{false, false, false, false}));
}

}  // namespace
}  // namespace framejit::graph
