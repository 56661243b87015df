#include "codegen/kernels/kernel.h"

#include <fmt/format.h>

#include <algorithm>

namespace framejit::codegen {

using graph::DType;
using graph::ExpressionOp;

namespace {

const char* access_name(Access access) {
  switch (access) {
    case Access::kContiguous:
      return "contiguous";
    case Access::kUniform:
      return "uniform";
    case Access::kStretched:
      return "stretched";
    case Access::kStrided:
      return "strided";
  }
  return "?";
}

std::string operands_text(const Step& step) {
  std::string text;
  for (int16_t operand : step.operands)
    if (operand >= 0) text += fmt::format("{}%{}", text.empty() ? "" : ", ", operand);
  return text;
}

std::string step_text(const Step& step) {
  switch (step.kind) {
    case Step::Kind::kLoad:
      return fmt::format("load {}", step.buffer);
    case Step::Kind::kConstant:
      // Hexadecimal, so that no two numbers have one text.
      return graph::is_floating(step.type) ? fmt::format("constant {} ({:a})", step.number, step.number)
                                           : fmt::format("constant {}", step.integer);
    case Step::Kind::kConvert:
      return "convert " + operands_text(step);
    case Step::Kind::kRound:
      return fmt::format("round {} to {}", operands_text(step), graph::dtype_name(step.storage));
    case Step::Kind::kCompute:
      return fmt::format("{} {}", graph::spelling(step.op), operands_text(step));
    case Step::Kind::kReduce:
      return fmt::format("reduce {} {}", graph::spelling(step.op), operands_text(step));
    case Step::Kind::kStore:
      return fmt::format("store {}, {}", step.buffer, operands_text(step));
  }
  return "?";
}

// Of truth values: those that bits have too.
bool has_truth_operation(ExpressionOp op) {
  switch (op) {
    case ExpressionOp::kBitAnd:
    case ExpressionOp::kBitOr:
    case ExpressionOp::kBitXor:
    case ExpressionOp::kBitNot:
    case ExpressionOp::kMultiply:
    case ExpressionOp::kMaximum:
    case ExpressionOp::kMinimum:
    case ExpressionOp::kEqual:
    case ExpressionOp::kNotEqual:
    case ExpressionOp::kLess:
    case ExpressionOp::kLessEqual:
    case ExpressionOp::kGreater:
    case ExpressionOp::kGreaterEqual:
    case ExpressionOp::kAnd:
    case ExpressionOp::kOr:
    case ExpressionOp::kXor:
    case ExpressionOp::kNot:
    case ExpressionOp::kWhere:
    case ExpressionOp::kAny:
    case ExpressionOp::kAll:
      return true;
    default:
      return false;
  }
}

}  // namespace

size_t Kernel::input_count() const {
  return static_cast<size_t>(std::count_if(buffers.begin(), buffers.end(), [](const Buffer& b) { return !b.output; }));
}

std::string to_string(const Kernel& kernel) {
  std::string text = "kernel (";
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    const Buffer& buffer = kernel.buffers[i];
    text += fmt::format("{}{} {} {}", i ? ", " : "", buffer.output ? "out" : "in", access_name(buffer.access),
                        graph::dtype_name(buffer.dtype));
  }
  text += kernel.depth == 1 ? ") {\n" : fmt::format(") of {} loops {{\n", kernel.depth);
  for (size_t i = 0; i < kernel.steps.size(); ++i) {
    const Step& step = kernel.steps[i];
    if (step.kind == Step::Kind::kStore) {
      text += fmt::format("  {}\n", step_text(step));
    } else {
      text += fmt::format("  %{} = {} : {}\n", i, step_text(step), graph::dtype_name(step.type));
    }
  }
  return text + "}\n";
}

DType value_type(DType dtype) {
  switch (dtype) {
    case DType::kF16:
    case DType::kBF16:
      return DType::kF32;
    case DType::kF32:
    case DType::kF64:
    case DType::kU8:
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
    case DType::kBool:
      return dtype;
    default:
      return DType::kUndefined;
  }
}

bool has_operation(ExpressionOp op, DType type) {
  if (type == DType::kBool) return has_truth_operation(op);
  return graph::compute_types(op).find(graph::is_floating(type) ? 'f' : 'i') != std::string_view::npos;
}

std::vector<StepFacts> facts_of(const Kernel& kernel) {
  std::vector<StepFacts> facts;
  facts.reserve(kernel.steps.size());
  for (const Step& step : kernel.steps) {
    StepFacts fact{0, step.kind != Step::Kind::kLoad || kernel.buffers[step.buffer].access == Access::kUniform};
    for (int16_t operand : step.operands) {
      if (operand < 0) continue;
      const StepFacts& of_operand = facts[static_cast<size_t>(operand)];
      fact.level = std::max(fact.level, of_operand.level);
      fact.uniform &= of_operand.uniform;
    }
    if (step.kind == Step::Kind::kReduce) fact = {static_cast<uint16_t>(fact.level + 1), true};
    if (step.kind == Step::Kind::kStore && kernel.buffers[step.buffer].access != Access::kUniform) fact.uniform = false;
    facts.push_back(fact);
  }
  return facts;
}

std::vector<size_t> ends_of_pass(const Kernel& kernel, std::span<const StepFacts> facts, uint16_t level) {
  std::vector<size_t> ends;
  for (size_t s = 0; s < kernel.steps.size(); ++s) {
    const Step& step = kernel.steps[s];
    const bool reduces = step.kind == Step::Kind::kReduce && facts[s].level == level + 1;
    const bool stores = step.kind == Step::Kind::kStore && !facts[s].uniform && facts[s].level == level;
    if (reduces || stores) ends.push_back(s);
  }
  return ends;
}

bool is_function(ExpressionOp op) { return op >= ExpressionOp::kExp && op <= ExpressionOp::kErfc; }

std::vector<bool> needed_in_pass(const Kernel& kernel, std::span<const StepFacts> facts, std::span<const size_t> ends,
                                 const std::vector<bool>& kept) {
  std::vector<bool> needed(kernel.steps.size());
  for (size_t end : ends) needed[end] = true;
  for (size_t s = needed.size(); s-- > 0;) {
    if (!needed[s] || (!kept.empty() && kept[s])) continue;
    for (int16_t operand : kernel.steps[s].operands)
      if (operand >= 0 && !facts[static_cast<size_t>(operand)].uniform) needed[static_cast<size_t>(operand)] = true;
  }
  return needed;
}

}  // namespace framejit::codegen
