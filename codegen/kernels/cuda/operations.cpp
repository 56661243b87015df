#include "codegen/kernels/cuda/operations.h"

#include <fmt/format.h>

#include <bit>
#include <limits>

namespace framejit::codegen {

using graph::DType;
using Op = graph::ExpressionOp;

namespace {

struct Row {
  Op op;
  const char* form;
};

constexpr Row kRows[] = {
    {Op::kAdd, "fj::add({0}, {1})"},
    {Op::kSubtract, "fj::subtract({0}, {1})"},
    {Op::kMultiply, "fj::multiply({0}, {1})"},
    {Op::kDivide, "{0} / {1}"},
    {Op::kNegate, "fj::negate({0})"},
    {Op::kBitAnd, "{0} & {1}"},
    {Op::kBitOr, "{0} | {1}"},
    {Op::kBitXor, "{0} ^ {1}"},
    {Op::kBitNot, "fj::flip({0})"},
    {Op::kShiftLeft, "fj::shift_left({0}, {1})"},
    {Op::kShiftRight, "fj::shift_right({0}, {1})"},
    {Op::kEqual, "{0} == {1}"},
    {Op::kNotEqual, "{0} != {1}"},
    {Op::kLess, "{0} < {1}"},
    {Op::kLessEqual, "{0} <= {1}"},
    {Op::kGreater, "{0} > {1}"},
    {Op::kGreaterEqual, "{0} >= {1}"},
    {Op::kAnd, "{0} && {1}"},
    {Op::kOr, "{0} || {1}"},
    {Op::kXor, "{0} != {1}"},
    {Op::kNot, "!{0}"},
    {Op::kWhere, "{0} ? {1} : {2}"},
    {Op::kMaximum, "fj::maximum({0}, {1})"},
    {Op::kMinimum, "fj::minimum({0}, {1})"},
    {Op::kFMax, "fj::fmaximum({0}, {1})"},
    {Op::kFMin, "fj::fminimum({0}, {1})"},
    {Op::kAbs, "fj::absolute({0})"},
    {Op::kCeil, "fj::ceil({0})"},
    {Op::kFloor, "fj::floor({0})"},
    {Op::kTrunc, "fj::trunc({0})"},
    {Op::kRound, "fj::rint({0})"},
    {Op::kIsNan, "{0} != {0}"},
    {Op::kSignBit, "fj::sign_bit({0})"},
    {Op::kExp, "fj::exp({0})"},
    {Op::kExp2, "fj::exp2({0})"},
    {Op::kExpm1, "fj::expm1({0})"},
    {Op::kLog, "fj::log({0})"},
    {Op::kLog2, "fj::log2({0})"},
    {Op::kLog10, "fj::log10({0})"},
    {Op::kLog1p, "fj::log1p({0})"},
    {Op::kSqrt, "fj::sqrt({0})"},
    {Op::kSin, "fj::sin({0})"},
    {Op::kCos, "fj::cos({0})"},
    {Op::kTan, "fj::tan({0})"},
    {Op::kAsin, "fj::asin({0})"},
    {Op::kAcos, "fj::acos({0})"},
    {Op::kAtan, "fj::atan({0})"},
    {Op::kSinh, "fj::sinh({0})"},
    {Op::kCosh, "fj::cosh({0})"},
    {Op::kTanh, "fj::tanh({0})"},
    {Op::kAsinh, "fj::asinh({0})"},
    {Op::kAcosh, "fj::acosh({0})"},
    {Op::kAtanh, "fj::atanh({0})"},
    {Op::kErf, "fj::erf({0})"},
    {Op::kErfc, "fj::erfc({0})"},
    {Op::kLGamma, "fj::lgamma({0})"},
    {Op::kPow, "fj::pow({0}, {1})"},
    {Op::kAtan2, "fj::atan2({0}, {1})"},
    {Op::kHypot, "fj::hypot({0}, {1})"},
    {Op::kCopySign, "fj::copysign({0}, {1})"},
    {Op::kFMod, "fj::fmod({0}, {1})"},
};

// Of functions in the prelude; numbers of the other types are loaded and stored as they are.
const char* suffix(DType dtype) {
  if (dtype == DType::kBool) return "_bool";
  if (dtype == DType::kF16) return "_f16";
  return dtype == DType::kBF16 ? "_bf16" : nullptr;
}

}  // namespace

const char* cuda_type(DType type) {
  switch (type) {
    case DType::kBool:
      return "bool";
    case DType::kU8:
      return "fj::u8";
    case DType::kI8:
      return "fj::i8";
    case DType::kI16:
      return "fj::i16";
    case DType::kI32:
      return "fj::i32";
    case DType::kI64:
      return "fj::i64";
    case DType::kF64:
      return "double";
    default:
      return "float";
  }
}

// Floating ones by their bits, so that infinities and what is no number have a text too.
std::string cuda_number(double number, int64_t integer, DType type) {
  if (type == DType::kBool) return integer ? "true" : "false";
  if (type == DType::kF32) return fmt::format("fj::f32({:#x}u)", std::bit_cast<uint32_t>(static_cast<float>(number)));
  if (type == DType::kF64) return fmt::format("fj::f64({:#x}ull)", std::bit_cast<uint64_t>(number));
  return fmt::format("({}){:#x}ull", cuda_type(type), static_cast<uint64_t>(integer));
}

std::string cuda_load(DType dtype, const std::string& address) {
  if (const char* special = suffix(dtype)) return fmt::format("fj::load{}({})", special, address);
  return fmt::format("fj::load<{}>({})", cuda_type(dtype), address);
}

std::string cuda_store(DType dtype, const std::string& address, const std::string& value) {
  if (const char* special = suffix(dtype)) return fmt::format("fj::store{}({}, {})", special, address, value);
  return fmt::format("fj::store<{}>({}, {})", cuda_type(dtype), address, value);
}

std::string cuda_convert(DType to, const std::string& value) {
  return to == DType::kBool ? value + " != 0" : fmt::format("({}){}", cuda_type(to), value);
}

std::string cuda_round(DType storage, const std::string& value) {
  return fmt::format("fj::round{}({})", suffix(storage), value);
}

const char* cuda_form(Op op) {
  for (const Row& row : kRows)
    if (row.op == op) return row.form;
  return nullptr;
}

std::string cuda_start(Op op, DType type) {
  const double infinity = std::numeric_limits<double>::infinity();
  const bool has_sign = type != DType::kU8;
  const auto bits = static_cast<unsigned>(graph::itemsize(type)) * 8;
  const auto highest = has_sign ? static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1) : int64_t{255};
  const int64_t lowest = has_sign ? -highest - 1 : 0;
  switch (op) {
    case Op::kProduct:
    case Op::kAll:
      return cuda_number(1, 1, type);
    case Op::kLargest:
      return cuda_number(-infinity, lowest, type);
    case Op::kSmallest:
      return cuda_number(infinity, highest, type);
    default:
      return cuda_number(0, 0, type);
  }
}

}  // namespace framejit::codegen
