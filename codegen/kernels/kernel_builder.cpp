#include "codegen/kernels/kernel_builder.h"

#include <bit>
#include <limits>

namespace framejit::codegen {

using graph::DType;
using graph::ExpressionOp;

namespace {

bool is_same(const Step& a, const Step& b) {
  return a.kind == b.kind && a.op == b.op && a.type == b.type && a.storage == b.storage && a.operands == b.operands &&
         a.buffer == b.buffer && a.integer == b.integer &&
         std::bit_cast<uint64_t>(a.number) == std::bit_cast<uint64_t>(b.number);
}

// One operation on up to three numbers, as the meaning of expressions has it.
template <class T>
T evaluate_one(ExpressionOp op, const std::array<T, 3>& numbers, int count) {
  graph::ExpressionNode nodes[4] = {};
  graph::ExpressionArgument<T> arguments[3];
  for (int i = 0; i < count; ++i) {
    nodes[i] = {ExpressionOp::kArgument, false, {-1, -1, -1}, static_cast<int16_t>(i)};
    arguments[i] = {true, {&numbers[static_cast<size_t>(i)], 1}, {}};
  }
  nodes[count] = {op, false, {-1, -1, -1}};
  for (int i = 0; i < count; ++i) nodes[count].operands[i] = static_cast<int16_t>(i);
  const graph::Expression expression{nodes, static_cast<uint16_t>(count + 1), 0, false};
  return graph::evaluate<T>(expression, std::span<const graph::ExpressionArgument<T>>(arguments), 0, 1);
}

}  // namespace

int16_t KernelBuilder::add(const Step& step) {
  for (size_t i = 0; i < kernel_.steps.size(); ++i)
    if (is_same(kernel_.steps[i], step)) return static_cast<int16_t>(i);
  if (kernel_.steps.size() >= std::numeric_limits<int16_t>::max()) {
    fail();
    return 0;
  }
  kernel_.steps.push_back(step);
  return static_cast<int16_t>(kernel_.steps.size() - 1);
}

int16_t KernelBuilder::load(uint16_t buffer) {
  Step step{Step::Kind::kLoad};
  step.type = value_type(kernel_.buffers[buffer].dtype);
  step.buffer = buffer;
  return add(step);
}

int16_t KernelBuilder::number(double value, DType type) {
  Step step{Step::Kind::kConstant};
  step.type = type;
  if (graph::is_floating(type)) {
    step.number = type == DType::kF32 ? static_cast<double>(static_cast<float>(value)) : value;
  } else {
    step.integer = type == DType::kBool ? value != 0 : static_cast<int64_t>(value);
  }
  return add(step);
}

int16_t KernelBuilder::truth(bool value) { return number(value, DType::kBool); }

std::optional<double> KernelBuilder::known_number(int16_t value) const {
  const Step& known = step(value);
  if (known.kind != Step::Kind::kConstant) return std::nullopt;
  return graph::is_floating(known.type) ? known.number : static_cast<double>(known.integer);
}

std::optional<bool> KernelBuilder::known_truth(int16_t value) const {
  std::optional<double> number = known_number(value);
  return number ? std::optional<bool>(*number != 0) : std::nullopt;
}

int16_t KernelBuilder::convert(int16_t value, DType type) {
  const DType from = type_of(value);
  if (from == type) return value;
  // What a float gives that an integer cannot hold is the compiler's choice, also in LibTorch's kernels.
  if (graph::is_floating(from) && !graph::is_floating(type) && type != DType::kBool) fail();
  if (is_constant(value) && (graph::is_floating(type) || type == DType::kBool))
    return number(*known_number(value), type);
  Step step{Step::Kind::kConvert};
  step.type = type;
  step.operands[0] = value;
  return add(step);
}

int16_t KernelBuilder::rounded(int16_t value, DType storage) {
  value = convert(value, value_type(storage));
  if (value_type(storage) == storage) return value;
  Step step{Step::Kind::kRound};
  step.type = DType::kF32;
  step.storage = storage;
  step.operands[0] = value;
  return add(step);
}

std::optional<int16_t> KernelBuilder::folded(ExpressionOp op, const Operands& operands, DType result) {
  int count = 0;
  std::array<double, 3> numbers{};
  std::array<int64_t, 3> integers{};
  bool floating = false;
  for (int16_t operand : operands) {
    if (operand < 0) break;
    if (!is_constant(operand)) return std::nullopt;
    const auto at = static_cast<size_t>(count++);
    floating |= graph::is_floating(type_of(operand));
    numbers[at] = *known_number(operand);
    integers[at] = step(operand).integer;
  }
  if (floating) return number(evaluate_one(op, numbers, count), result);
  if (result != DType::kI64 && result != DType::kBool) return std::nullopt;  // narrower ones wrap around elsewhere
  Step known{Step::Kind::kConstant};
  known.type = result;
  known.integer = evaluate_one(op, integers, count);
  if (result == DType::kBool) known.integer &= 1;  // all bits of a truth value are one
  return add(known);
}

// As LibTorch's kernels for these exponents: the same products.
std::optional<int16_t> KernelBuilder::power(int16_t base, double exponent) {
  const int16_t square = exponent == 2 || exponent == 3 || exponent == -2
                             ? compute(ExpressionOp::kMultiply, {base, base, -1})
                             : int16_t{-1};
  if (exponent == 1) return base;
  if (exponent == 2) return square;
  if (exponent == 3) return compute(ExpressionOp::kMultiply, {square, base, -1});
  if (exponent != -1 && exponent != -2) return std::nullopt;
  const int16_t one = number(1, type_of(base));
  return compute(ExpressionOp::kDivide, {one, exponent == -1 ? base : square, -1});
}

std::optional<int16_t> KernelBuilder::simplified(ExpressionOp op, const Operands& operands) {
  if (op == ExpressionOp::kWhere)
    if (std::optional<bool> which = known_truth(operands[0])) return operands[*which ? 1 : 2];
  if (op == ExpressionOp::kMultiply && type_of(operands[0]) != DType::kBool) {
    if (known_number(operands[0]) == 1.0) return operands[1];
    if (known_number(operands[1]) == 1.0) return operands[0];
  }
  if (op == ExpressionOp::kPow)
    if (std::optional<double> exponent = known_number(operands[1])) return power(operands[0], *exponent);
  return std::nullopt;
}

int16_t KernelBuilder::compute(ExpressionOp op, Operands operands) {
  // The type it computes in is that of its last operand: the first of `where` is a truth value.
  const int16_t last = operands[2] >= 0 ? operands[2] : operands[1] >= 0 ? operands[1] : operands[0];
  const DType type = type_of(last);
  if (!has_operation(op, type)) {
    fail();
    return last;
  }
  if (std::optional<int16_t> simple = simplified(op, operands)) return *simple;
  const DType result = graph::gives_truth(op) ? DType::kBool : type;
  if (std::optional<int16_t> known = folded(op, operands, result)) return *known;
  Step step{Step::Kind::kCompute, op, result};
  step.operands = operands;
  return add(step);
}

int16_t KernelBuilder::reduce(ExpressionOp op, int16_t value) {
  if (!has_operation(op, type_of(value))) fail();
  Step step{Step::Kind::kReduce, op, graph::gives_truth(op) ? DType::kBool : type_of(value)};
  step.operands[0] = value;
  return add(step);
}

void KernelBuilder::store(uint16_t buffer, int16_t value) {
  Step step{Step::Kind::kStore};
  step.type = kernel_.buffers[buffer].dtype;
  step.buffer = buffer;
  step.operands[0] = value;
  kernel_.steps.push_back(step);
}

Kernel KernelBuilder::take() {
  std::vector<Step>& steps = kernel_.steps;
  std::vector<bool> needed(steps.size());
  for (size_t s = steps.size(); s-- > 0;) {
    if (steps[s].kind == Step::Kind::kStore) needed[s] = true;
    if (!needed[s]) continue;
    for (int16_t operand : steps[s].operands)
      if (operand >= 0) needed[static_cast<size_t>(operand)] = true;
  }
  std::vector<int16_t> renamed(steps.size(), -1);
  size_t kept = 0;
  for (size_t s = 0; s < steps.size(); ++s) {
    if (!needed[s]) continue;
    renamed[s] = static_cast<int16_t>(kept);
    for (int16_t& operand : steps[s].operands)
      if (operand >= 0) operand = renamed[static_cast<size_t>(operand)];
    steps[kept++] = steps[s];
  }
  steps.resize(kept);
  return std::move(kernel_);
}

}  // namespace framejit::codegen
