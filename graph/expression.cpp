#include "graph/expression.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include "base/check.h"

namespace framejit::graph {

std::string_view spelling(ExpressionOp op) {
  switch (op) {
    case ExpressionOp::kArgument:
    case ExpressionOp::kTruthArgument:
      return "argument";
    case ExpressionOp::kHas:
      return "has";
    case ExpressionOp::kTextIs:
      return "is";
    case ExpressionOp::kConstant:
      return "constant";
    case ExpressionOp::kCount:
      return "count";
    case ExpressionOp::kIsCuda:
      return "is_cuda";
    case ExpressionOp::kIsOneDnns:
      return "is_onednns";
    case ExpressionOp::kLosesInfinity:
      return "loses_infinity";
    case ExpressionOp::kSince:
      return "since";
#define EXPRESSION(name, text, operands, result, types) \
  case ExpressionOp::k##name:                           \
    return text;
#define REDUCTION EXPRESSION
#include "graph/expression.def"
#undef EXPRESSION
#undef REDUCTION
  }
  return "?";
}

namespace {

struct Fact {
  char result = 'n';
  std::string_view types;
};

Fact fact_of(ExpressionOp op) {
  switch (op) {
#define EXPRESSION(name, text, operands, result, types) \
  case ExpressionOp::k##name:                           \
    return {result, types};
#define REDUCTION EXPRESSION
#include "graph/expression.def"
#undef EXPRESSION
#undef REDUCTION
    default:
      return {};
  }
}

}  // namespace

static std::atomic<int> torch_release{std::numeric_limits<int>::max()};

void set_torch_release(int release) { torch_release = release; }
bool is_torch_since(double release) { return torch_release >= release; }

static std::atomic<bool (*)(DType)> has_onednn_kernel{nullptr}, gelu_loses_infinity{nullptr};

void ask_of_onednn(bool (*has_kernel)(DType), bool (*loses_infinity)(DType)) {
  has_onednn_kernel = has_kernel;
  gelu_loses_infinity = loses_infinity;
}

static bool holds_in_onednn(bool (*ask)(DType), const TensorMeta& tensor) {
  return ask && tensor.device.is_cpu() && tensor.numel() > 1 && tensor.is_contiguous() && ask(tensor.dtype);
}

bool is_onednns(const TensorMeta& tensor) { return holds_in_onednn(has_onednn_kernel, tensor); }
bool loses_infinity(const TensorMeta& tensor) { return holds_in_onednn(gelu_loses_infinity, tensor); }

std::string_view compute_types(ExpressionOp op) { return fact_of(op).types; }
bool gives_truth(ExpressionOp op) { return fact_of(op).result == 't'; }
bool is_reduction(ExpressionOp op) { return op >= ExpressionOp::kSum; }

namespace {

using Op = ExpressionOp;

// Arithmetic of integers wraps around: it is done without signs.
template <class T>
using Wrapping = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;

template <class T>
bool is_nan(T v) {
  return v != v;
}

template <class T>
T larger(T a, T b) {
  return is_nan(a) || a > b ? a : b;
}

template <class T>
T smaller(T a, T b) {
  return is_nan(a) || a < b ? a : b;
}

int64_t shifted_left(int64_t a, int64_t by) {
  return by < 0 || by >= 64 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << by);
}

int64_t shifted_right(int64_t a, int64_t by) { return a >> (by < 0 || by >= 64 ? 63 : by); }

// Of two numbers, in any type.
template <class T>
std::optional<T> arithmetic(Op op, T a, T b) {
  using W = Wrapping<T>;
  switch (op) {
    case Op::kAdd:
      return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
    case Op::kSubtract:
      return static_cast<T>(static_cast<W>(a) - static_cast<W>(b));
    case Op::kMultiply:
      return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
    case Op::kMaximum:
      return is_nan(b) ? b : larger(a, b);
    case Op::kMinimum:
      return is_nan(b) ? b : smaller(a, b);
    case Op::kFMax:
      return is_nan(a) ? b : is_nan(b) ? a : larger(a, b);
    case Op::kFMin:
      return is_nan(a) ? b : is_nan(b) ? a : smaller(a, b);
    case Op::kEqual:
      return a == b;
    case Op::kNotEqual:
      return a != b;
    case Op::kLess:
      return a < b;
    case Op::kLessEqual:
      return a <= b;
    case Op::kGreater:
      return a > b;
    case Op::kGreaterEqual:
      return a >= b;
    case Op::kAnd:
      return a != 0 && b != 0;
    case Op::kOr:
      return a != 0 || b != 0;
    case Op::kXor:
      return (a != 0) != (b != 0);
    default:
      return std::nullopt;
  }
}

// Of one number, in any type.
template <class T>
std::optional<T> simple(Op op, T a) {
  switch (op) {
    case Op::kNegate:
      return static_cast<T>(-static_cast<Wrapping<T>>(a));
    case Op::kNot:
      return a == 0;
    case Op::kAbs:
      if constexpr (std::is_floating_point_v<T>) return std::abs(a);
      return a < 0 ? static_cast<T>(-static_cast<Wrapping<T>>(a)) : a;
    case Op::kCeil:
    case Op::kFloor:
    case Op::kTrunc:
    case Op::kRound:
      if constexpr (std::is_integral_v<T>) return a;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

double elementary(Op op, double a) {
  switch (op) {
#define FUNCTION(name, function) \
  case Op::k##name:              \
    return function(a);
    FUNCTION(Ceil, std::ceil)
    FUNCTION(Floor, std::floor)
    FUNCTION(Trunc, std::trunc)
    FUNCTION(Round, std::nearbyint)
    FUNCTION(IsNan, std::isnan)
    FUNCTION(SignBit, std::signbit)
    FUNCTION(Exp, std::exp)
    FUNCTION(Exp2, std::exp2)
    FUNCTION(Expm1, std::expm1)
    FUNCTION(Log, std::log)
    FUNCTION(Log2, std::log2)
    FUNCTION(Log10, std::log10)
    FUNCTION(Log1p, std::log1p)
    FUNCTION(Sqrt, std::sqrt)
    FUNCTION(Sin, std::sin)
    FUNCTION(Cos, std::cos)
    FUNCTION(Tan, std::tan)
    FUNCTION(Asin, std::asin)
    FUNCTION(Acos, std::acos)
    FUNCTION(Atan, std::atan)
    FUNCTION(Sinh, std::sinh)
    FUNCTION(Cosh, std::cosh)
    FUNCTION(Tanh, std::tanh)
    FUNCTION(Asinh, std::asinh)
    FUNCTION(Acosh, std::acosh)
    FUNCTION(Atanh, std::atanh)
    FUNCTION(Erf, std::erf)
    FUNCTION(Erfc, std::erfc)
    FUNCTION(LGamma, std::lgamma)
#undef FUNCTION
    default:
      FJ_CHECK(false, "expected a function of one number, got {}", spelling(op));
  }
}

double elementary(Op op, double a, double b) {
  switch (op) {
    case Op::kDivide:
      return a / b;
    case Op::kPow:
      return std::pow(a, b);
    case Op::kAtan2:
      return std::atan2(a, b);
    case Op::kHypot:
      return std::hypot(a, b);
    case Op::kCopySign:
      return std::copysign(a, b);
    case Op::kFMod:
      return std::fmod(a, b);
    default:
      FJ_CHECK(false, "expected a function of two numbers, got {}", spelling(op));
  }
}

int64_t elementary(Op op, int64_t a) {
  FJ_CHECK(op == Op::kBitNot, "expected a function of an integer, got {}", spelling(op));
  return ~a;
}

int64_t elementary(Op op, int64_t a, int64_t b) {
  switch (op) {
    case Op::kBitAnd:
      return a & b;
    case Op::kBitOr:
      return a | b;
    case Op::kBitXor:
      return a ^ b;
    case Op::kShiftLeft:
      return shifted_left(a, b);
    case Op::kShiftRight:
      return shifted_right(a, b);
    default:
      FJ_CHECK(false, "expected a function of two integers, got {}", spelling(op));
  }
}

template <class T>
class Evaluation {
 public:
  Evaluation(const Expression& expression, std::span<const ExpressionArgument<T>> arguments, size_t count)
      : expression_(expression), arguments_(arguments), count_(count), reduced_(expression.count) {}

  T node(size_t id, size_t element) {
    const ExpressionNode& node = expression_.nodes[id];
    if (is_reduction(node.op)) {
      if (!reduced_[id]) reduced_[id] = reduce(node);
      return *reduced_[id];
    }
    if (node.operands[0] < 0) return leaf(node, element);
    T a = operand(node, 0, element);
    if (node.op == Op::kWhere) return operand(node, a != 0 ? 1 : 2, element);
    if (node.operands[1] < 0) {
      std::optional<T> result = simple(node.op, a);
      return result ? *result : static_cast<T>(elementary(node.op, a));
    }
    T b = operand(node, 1, element);
    std::optional<T> result = arithmetic(node.op, a, b);
    return result ? *result : static_cast<T>(elementary(node.op, a, b));
  }

 private:
  T operand(const ExpressionNode& node, size_t which, size_t element) {
    return this->node(static_cast<size_t>(node.operands[which]), element);
  }

  T leaf(const ExpressionNode& node, size_t element) {
    if (node.op == Op::kConstant) return static_cast<T>(node.value);
    if (node.op == Op::kCount) return static_cast<T>(count_);
    if (node.op == Op::kIsCuda || node.op == Op::kIsOneDnns || node.op == Op::kLosesInfinity) return 0;
    if (node.op == Op::kSince) return is_torch_since(node.value);
    const ExpressionArgument<T>& argument = arguments_[static_cast<size_t>(node.index)];
    if (node.op == Op::kHas) return argument.given;
    if (node.op == Op::kTextIs) return argument.given && argument.text == node.text;
    if (!argument.given) return 0;
    return argument.numbers[argument.numbers.size() == 1 ? 0 : element];
  }

  T reduce(const ExpressionNode& node) {
    T result = start(node.op);
    for (size_t i = 0; i < count_; ++i) {
      T next = operand(node, 0, i);
      if (i == 0 && (node.op == Op::kLargest || node.op == Op::kSmallest))
        result = next;
      else
        result = *arithmetic(combining(node.op), result, next);
    }
    return result;
  }

  static T start(Op op) { return op == Op::kProduct || op == Op::kAll ? 1 : 0; }

  const Expression& expression_;
  std::span<const ExpressionArgument<T>> arguments_;
  size_t count_;
  std::vector<std::optional<T>> reduced_;
};

}  // namespace

template <class T>
T evaluate(const Expression& expression, std::span<const ExpressionArgument<T>> arguments, size_t element,
           size_t count) {
  return Evaluation<T>(expression, arguments, count).node(expression.count - size_t{1}, element);
}

template double evaluate(const Expression&, std::span<const ExpressionArgument<double>>, size_t, size_t);
template int64_t evaluate(const Expression&, std::span<const ExpressionArgument<int64_t>>, size_t, size_t);

}  // namespace framejit::graph
