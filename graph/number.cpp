#include "graph/number.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "graph/infer/scalar.h"
#include "graph/operand.h"

namespace framejit::graph {
namespace {

struct NumberRow {
  const char* spelling;
  size_t operands;
  bool raises;
};

constexpr NumberRow kRows[] = {
    {"item", 1, false},
#define NUMBER(name, spelling, operands, raises) {spelling, operands, raises},
#include "graph/number.def"
#undef NUMBER
};

OpId intern(const NumberRow& row) {
  const std::string name = fmt::format("framejit::number_{}", row.spelling);
  const char* args = row.operands == 1 ? "Tensor a" : "Tensor a, Tensor b";
  return intern_op(name, fmt::format("{}({}) -> Tensor", name, args), row.raises ? uint32_t{kOpMayRaise} : 0);
}

const std::array<OpId, std::size(kRows)>& all() {
  static const auto ops = [] {
    std::array<OpId, std::size(kRows)> made;
    for (size_t i = 0; i < made.size(); ++i) made[i] = intern(kRows[i]);
    return made;
  }();
  return ops;
}

// As float_pow: a complex result, a division by zero and an overflow are not followed. The rest is C99's.
std::optional<double> power(double base, double exponent) {
  if (std::isfinite(base) && std::isfinite(exponent)) {
    if (base == 0 && exponent < 0) return std::nullopt;
    if (base < 0 && exponent != std::floor(exponent)) return std::nullopt;
    const double result = std::pow(base, exponent);
    return std::isfinite(result) ? std::optional(result) : std::nullopt;
  }
  return std::pow(base, exponent);
}

// Neumaier's: "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen", 1974.
double lost(double a, double b) {
  const double sum = a + b;
  return std::fabs(a) >= std::fabs(b) ? (a - sum) + b : (b - sum) + a;
}

std::optional<double> fitting(double number, DType elements) {
  return holds(elements, Operand::real(number)) ? std::optional(number) : std::nullopt;
}

}  // namespace

OpId number_op(NumberOp op) { return all()[static_cast<size_t>(op)]; }

std::optional<NumberOp> find_number_op(OpId op) {
  static const auto [first, last] = std::minmax_element(all().begin(), all().end());
  if (op < *first || *last < op) return std::nullopt;  // nearly all are
  const auto found = std::find(all().begin(), all().end(), op);
  return found == all().end() ? std::nullopt : std::optional(static_cast<NumberOp>(found - all().begin()));
}

size_t number_operand_count(NumberOp op) { return kRows[static_cast<size_t>(op)].operands; }

std::optional<double> compute_number(NumberOp op, double a, double b) {
  switch (op) {
    case NumberOp::kItem:
      return a;
    case NumberOp::kAdd:
      return a + b;
    case NumberOp::kSubtract:
      return a - b;
    case NumberOp::kMultiply:
      return a * b;
    case NumberOp::kDivide:
      return b == 0 ? std::nullopt : std::optional(a / b);
    case NumberOp::kPower:
      return power(a, b);
    case NumberOp::kNegate:
      return -a;
    case NumberOp::kSqrt:
      return a < 0 ? std::nullopt : std::optional(std::sqrt(a));
    case NumberOp::kLost:
      return lost(a, b);
    case NumberOp::kRestore:
      return b != 0 && std::isfinite(b) ? a + b : a;
    case NumberOp::kFitF32:
      return fitting(a, DType::kF32);
    case NumberOp::kFitF16:
      return fitting(a, DType::kF16);
    case NumberOp::kFitBF16:
      return fitting(a, DType::kBF16);
  }
  return std::nullopt;
}

bool compare_numbers(int op, double a, double b) {
  switch (op) {
    case 0:
      return a < b;
    case 1:
      return a <= b;
    case 2:
      return a == b;
    case 3:
      return a != b;
    case 4:
      return a > b;
    default:
      return a >= b;
  }
}

const char* comparison_sign(int op) {
  static const char* const kSigns[] = {"<", "<=", "==", "!=", ">", ">="};
  return kSigns[op];
}

std::string to_string(NumberComparison comparison, const std::string& other) {
  return fmt::format("{} {}) is {}", comparison_sign(comparison.op), other, comparison.outcome ? "True" : "False");
}

TensorMeta number_meta() {
  TensorMeta meta;
  meta.dtype = DType::kF64;
  meta.wrapped_number = true;
  return meta;
}

std::optional<NumberOp> fit_op(DType elements) {
  switch (to_real(elements)) {
    case DType::kF64:
      return std::nullopt;
    case DType::kF16:
      return NumberOp::kFitF16;
    case DType::kBF16:
      return NumberOp::kFitBF16;
    default:
      return NumberOp::kFitF32;
  }
}

}  // namespace framejit::graph
