#include "graph/expression.h"

#include <climits>
#include <cmath>

#include "graph/generated/op_ids.h"
#include "graph/op.h"
#include "graph/op_table.h"
#include "tests/unit/graph/test_support.h"

namespace framejit::graph {
namespace {

// The value for these numbers, one for each argument.
template <class T>
T value_of(OpId op, const std::vector<std::optional<T>>& numbers) {
  std::vector<ExpressionArgument<T>> arguments(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i]) arguments[i] = {true, {&*numbers[i], 1}, {}};
  return evaluate<T>(*expression_of(op), arguments, 0, 1);
}

std::string operands_of(const ExpressionNode& node) {
  std::string text;
  for (int16_t operand : node.operands)
    if (operand >= 0) text += " " + std::to_string(operand);
  return text;
}

TEST(ExpressionTest, IsANodeForEachStepWithItsOperandsBeforeIt) {
  const Expression* add = expression_of(ops::k_add_Tensor);
  ASSERT_NE(add, nullptr);
  std::string text;
  for (const ExpressionNode& node : add->all()) text += std::string(spelling(node.op)) + operands_of(node) + "; ";
  EXPECT_EQ(text, "argument; argument; argument; * 1 2; + 0 3; ");
  EXPECT_TRUE(add->holds_for(kFloating) && add->holds_for(kInteger) && !add->holds_for(kBoolean));
  EXPECT_FALSE(add->reduces);
}

TEST(ExpressionTest, EveryPointwiseOperatorHasOneOrAReason) {
  size_t with = 0;
  for (uint32_t i = 0; i < kOpRowCount; ++i) {
    const Expression* expression = expression_of(OpId(i));
    if (op_info(OpId(i)).has(kOpPointwise)) {
      EXPECT_NE(expression != nullptr, why_no_expression(OpId(i)) != nullptr) << kOpRows[i].name;
    }
    if (!expression) continue;
    ++with;
    EXPECT_NE(expression->types, 0) << kOpRows[i].name;
    for (size_t n = 0; n < expression->count; ++n)
      for (int16_t operand : expression->nodes[n].operands) EXPECT_LT(operand, static_cast<int>(n)) << kOpRows[i].name;
  }
  EXPECT_GT(with, 200u);
}

TEST(ExpressionTest, OperatorsBeyondTheTableHaveNone) {
  OpId custom = intern_op("mylib::halve");
  EXPECT_EQ(expression_of(custom), nullptr);
  EXPECT_EQ(why_no_expression(custom), nullptr);
  EXPECT_EQ(expression_of(ops::k_mm), nullptr);
  EXPECT_NE(std::string_view(why_no_expression(ops::k_digamma)).find("C libraries"), std::string_view::npos);
}

TEST(ExpressionTest, ComputesNumbersAndIntegersThatWrapAround) {
  EXPECT_EQ(value_of<double>(ops::k_add_Tensor, {1.5, 2.0, 0.25}), 2.0);
  EXPECT_EQ(value_of<int64_t>(ops::k_add_Tensor, {INT64_MAX, 1, 1}), INT64_MIN);
  EXPECT_EQ(value_of<int64_t>(ops::k_bitwise_left_shift_Tensor, {1, 64}), 0);
  EXPECT_EQ(value_of<int64_t>(ops::k_bitwise_right_shift_Tensor, {-4, -1}), -1);
  EXPECT_EQ(value_of<double>(ops::k_round, {2.5}), 2.0);
  EXPECT_TRUE(std::isnan(value_of<double>(ops::k_relu, {NAN})));
  EXPECT_EQ(value_of<double>(ops::k_fmax, {NAN, 1.0}), 1.0);
}

TEST(ExpressionTest, AbsentArgumentsAreTold) {
  EXPECT_EQ(value_of<double>(ops::k_clamp, {-2.0, std::nullopt, 1.0}), -2.0);
  EXPECT_EQ(value_of<double>(ops::k_clamp, {-2.0, 0.0, std::nullopt}), 0.0);
}

TEST(ExpressionTest, TextsAreCompared) {
  const double x = 1.0;
  ExpressionArgument<double> arguments[] = {{true, {&x, 1}, {}}, {true, {}, "tanh"}};
  const Expression& gelu = *expression_of(ops::k_gelu);
  EXPECT_NEAR(evaluate<double>(gelu, arguments, 0, 1), 0.841192, 1e-6);
  arguments[1].text = "none";
  EXPECT_NEAR(evaluate<double>(gelu, arguments, 0, 1), 0.841345, 1e-6);
}

TEST(ExpressionTest, ReleasesOfTorchMayDiffer) {
  const std::tuple<int, double, double> kExpected[] = {{206, -1, 2}, {207, -1, 3}, {208, 0, 2}, {INT_MAX, 0, 2}};
  for (auto [release, low, high] : kExpected) {
    set_torch_release(release);
    EXPECT_EQ(value_of<double>(ops::k_hardswish_backward, {2.0, -3.0}), low) << release;
    EXPECT_EQ(value_of<double>(ops::k_hardswish_backward, {2.0, 3.0}), high) << release;
  }
}

TEST(ExpressionTest, OneDnnsAreContiguousTensorsOfSeveralElementsOnTheCpu) {
  TensorMeta meta = TensorMeta::fresh(std::vector<int64_t>{2, 3}, DType::kF32, Device{});
  EXPECT_FALSE(is_onednns(meta) || loses_infinity(meta));  // nobody to ask
  ask_of_onednn([](DType dtype) { return dtype == DType::kF32; }, [](DType) { return false; });
  EXPECT_TRUE(is_onednns(meta));
  EXPECT_FALSE(loses_infinity(meta));
  ask_of_onednn([](DType dtype) { return dtype == DType::kF32; }, [](DType dtype) { return dtype == DType::kF32; });
  EXPECT_TRUE(loses_infinity(meta));
  meta.strides = {1, 2};
  EXPECT_FALSE(is_onednns(meta) || loses_infinity(meta));
  EXPECT_FALSE(is_onednns(TensorMeta::fresh(std::vector<int64_t>{1}, DType::kF32, Device{})));
  EXPECT_FALSE(is_onednns(TensorMeta::fresh(std::vector<int64_t>{2}, DType::kF64, Device{})));
  EXPECT_FALSE(is_onednns(TensorMeta::fresh(std::vector<int64_t>{2}, DType::kF32, {DeviceType::kCuda, 0})));
  ask_of_onednn(nullptr, nullptr);
}

TEST(ExpressionTest, ReductionsSeeAllElements) {
  const std::vector<double> x = {1, 2, 3, 6};
  const double correction = 0;
  ExpressionArgument<double> arguments[] = {{true, x, {}}, {}, {true, {&correction, 1}, {}}, {}};
  const Expression& var = *expression_of(ops::k_var_correction);
  EXPECT_TRUE(var.reduces);
  EXPECT_EQ(evaluate<double>(var, arguments, 0, x.size()), 3.5);
  EXPECT_EQ(evaluate<double>(*expression_of(ops::k_amax), {arguments, 3}, 0, x.size()), 6);
}

}  // namespace
}  // namespace framejit::graph
