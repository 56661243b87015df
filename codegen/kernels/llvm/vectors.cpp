#include "codegen/kernels/llvm/vectors.h"

#include <limits>
#include <vector>

#include "codegen/kernels/llvm/elementary.h"
#include "codegen/kernels/llvm/functions.h"

namespace framejit::codegen {

using graph::DType;
using Op = graph::ExpressionOp;

namespace {

constexpr const char* kNoName = "";
bool is_signed(DType type) { return type != DType::kU8 && type != DType::kBool; }

}  // namespace

Vectors::Vectors(LLVMContextRef context, LLVMModuleRef module, LLVMBuilderRef builder, bool wide)
    : module_(module),
      builder_(builder),
      wide_(wide),
      lanes_(wide ? 32 : 16),  // two registers of f32: one hides the latency of the other
      i1_(LLVMInt1TypeInContext(context)),
      i8_(LLVMInt8TypeInContext(context)),
      i16_(LLVMInt16TypeInContext(context)),
      i32_(LLVMInt32TypeInContext(context)),
      i64_(LLVMInt64TypeInContext(context)),
      f16_(LLVMHalfTypeInContext(context)),
      f32_(LLVMFloatTypeInContext(context)),
      f64_(LLVMDoubleTypeInContext(context)) {}

LLVMTypeRef Vectors::scalar(DType type) const { return type == DType::kBool ? i1_ : memory(type); }

LLVMTypeRef Vectors::memory(DType type) const {
  switch (type) {
    case DType::kBool:
    case DType::kU8:
    case DType::kI8:
      return i8_;
    case DType::kI16:
    case DType::kBF16:
      return i16_;
    case DType::kI32:
      return i32_;
    case DType::kI64:
      return i64_;
    case DType::kF16:
      return f16_;
    case DType::kF64:
      return f64_;
    default:
      return f32_;
  }
}

LLVMValueRef Vectors::splat(LLVMValueRef scalar) const {
  LLVMValueRef none = LLVMGetUndef(vector(LLVMTypeOf(scalar)));
  LLVMValueRef first = LLVMBuildInsertElement(builder_, none, scalar, LLVMConstInt(i32_, 0, false), kNoName);
  return LLVMBuildShuffleVector(builder_, first, none, LLVMConstNull(LLVMVectorType(i32_, lanes_)), kNoName);
}

LLVMValueRef Vectors::iota() const {
  std::vector<LLVMValueRef> numbers;
  numbers.reserve(lanes_);
  for (unsigned i = 0; i < lanes_; ++i) numbers.push_back(integer(i));
  return LLVMConstVector(numbers.data(), lanes_);
}

LLVMValueRef Vectors::number(double value, int64_t integer, DType type) const {
  LLVMValueRef one = graph::is_floating(type) ? LLVMConstReal(scalar(type), value)
                                              : LLVMConstInt(scalar(type), static_cast<uint64_t>(integer), true);
  std::vector<LLVMValueRef> all(lanes_, one);
  return LLVMConstVector(all.data(), lanes_);
}

LLVMValueRef Vectors::same(LLVMValueRef like, uint64_t value) const {
  std::vector<LLVMValueRef> all(lanes_, LLVMConstInt(LLVMGetElementType(LLVMTypeOf(like)), value, false));
  return LLVMConstVector(all.data(), lanes_);
}

LLVMValueRef Vectors::intrinsic(const char* name, std::span<const LLVMTypeRef> overloads,
                                std::span<LLVMValueRef const> arguments) const {
  const unsigned id = LLVMLookupIntrinsicID(name, std::string_view(name).size());
  std::vector<LLVMTypeRef> types(overloads.begin(), overloads.end());
  std::vector<LLVMValueRef> values(arguments.begin(), arguments.end());
  LLVMValueRef function = LLVMGetIntrinsicDeclaration(module_, id, types.data(), types.size());
  return LLVMBuildCall2(builder_, LLVMGlobalGetValueType(function), function, values.data(),
                        static_cast<unsigned>(values.size()), kNoName);
}

LLVMValueRef Vectors::from_memory(LLVMValueRef value, DType dtype) const {
  switch (dtype) {
    case DType::kBool:
      return LLVMBuildICmp(builder_, LLVMIntNE, value, same(value, 0), kNoName);
    case DType::kF16:
      return LLVMBuildFPExt(builder_, value, vector(f32_), kNoName);
    case DType::kBF16: {
      LLVMValueRef bits = LLVMBuildZExt(builder_, value, vector(i32_), kNoName);
      return LLVMBuildBitCast(builder_, LLVMBuildShl(builder_, bits, same(bits, 16), kNoName), vector(f32_), kNoName);
    }
    default:
      return value;
  }
}

// To nearest, ties to even; what is not a number is the one that c10::BFloat16 makes.
LLVMValueRef Vectors::rounded_to_bf16(LLVMValueRef value) const {
  LLVMValueRef bits = LLVMBuildBitCast(builder_, value, vector(i32_), kNoName);
  LLVMValueRef last =
      LLVMBuildAnd(builder_, LLVMBuildLShr(builder_, bits, same(bits, 16), kNoName), same(bits, 1), kNoName);
  LLVMValueRef up = LLVMBuildAdd(builder_, bits, LLVMBuildAdd(builder_, last, same(bits, 0x7fff), kNoName), kNoName);
  LLVMValueRef high = LLVMBuildLShr(builder_, up, same(bits, 16), kNoName);
  LLVMValueRef nan = LLVMBuildFCmp(builder_, LLVMRealUNO, value, value, kNoName);
  return LLVMBuildSelect(builder_, nan, same(bits, 0x7fc0), high, kNoName);
}

LLVMValueRef Vectors::to_memory(LLVMValueRef value, DType dtype) const {
  switch (dtype) {
    case DType::kBool:
      return LLVMBuildZExt(builder_, value, vector(i8_), kNoName);
    case DType::kF16:
      return LLVMBuildFPTrunc(builder_, value, vector(f16_), kNoName);
    case DType::kBF16:
      return LLVMBuildTrunc(builder_, rounded_to_bf16(value), vector(i16_), kNoName);
    default:
      return value;
  }
}

LLVMValueRef Vectors::convert(LLVMValueRef value, DType from, DType to) const {
  LLVMTypeRef type = vector(scalar(to));
  const bool from_float = graph::is_floating(from), to_float = graph::is_floating(to);
  if (to == DType::kBool)
    return from_float ? LLVMBuildFCmp(builder_, LLVMRealUNE, value, LLVMConstNull(LLVMTypeOf(value)), kNoName)
                      : LLVMBuildICmp(builder_, LLVMIntNE, value, LLVMConstNull(LLVMTypeOf(value)), kNoName);
  if (from_float) return LLVMBuildFPCast(builder_, value, type, kNoName);
  if (to_float)
    return is_signed(from) ? LLVMBuildSIToFP(builder_, value, type, kNoName)
                           : LLVMBuildUIToFP(builder_, value, type, kNoName);
  return LLVMBuildIntCast2(builder_, value, type, is_signed(from), kNoName);
}

LLVMValueRef Vectors::compare_integers(Op op, bool with_sign, LLVMValueRef a, LLVMValueRef b) const {
  switch (op) {
    case Op::kEqual:
      return LLVMBuildICmp(builder_, LLVMIntEQ, a, b, kNoName);
    case Op::kNotEqual:
      return LLVMBuildICmp(builder_, LLVMIntNE, a, b, kNoName);
    case Op::kLess:
      return LLVMBuildICmp(builder_, with_sign ? LLVMIntSLT : LLVMIntULT, a, b, kNoName);
    case Op::kLessEqual:
      return LLVMBuildICmp(builder_, with_sign ? LLVMIntSLE : LLVMIntULE, a, b, kNoName);
    case Op::kGreater:
      return LLVMBuildICmp(builder_, with_sign ? LLVMIntSGT : LLVMIntUGT, a, b, kNoName);
    case Op::kGreaterEqual:
      return LLVMBuildICmp(builder_, with_sign ? LLVMIntSGE : LLVMIntUGE, a, b, kNoName);
    default:
      return nullptr;
  }
}

LLVMValueRef Vectors::compare_floats(Op op, LLVMValueRef a, LLVMValueRef b) const {
  switch (op) {
    case Op::kEqual:
      return LLVMBuildFCmp(builder_, LLVMRealOEQ, a, b, kNoName);
    case Op::kNotEqual:
      return LLVMBuildFCmp(builder_, LLVMRealUNE, a, b, kNoName);
    case Op::kLess:
      return LLVMBuildFCmp(builder_, LLVMRealOLT, a, b, kNoName);
    case Op::kLessEqual:
      return LLVMBuildFCmp(builder_, LLVMRealOLE, a, b, kNoName);
    case Op::kGreater:
      return LLVMBuildFCmp(builder_, LLVMRealOGT, a, b, kNoName);
    case Op::kGreaterEqual:
      return LLVMBuildFCmp(builder_, LLVMRealOGE, a, b, kNoName);
    default:
      return nullptr;
  }
}

LLVMValueRef Vectors::of_truths(Op op, std::span<const LLVMValueRef> v) const {
  switch (op) {
    case Op::kAnd:
    case Op::kBitAnd:
    case Op::kMultiply:
    case Op::kMinimum:
      return LLVMBuildAnd(builder_, v[0], v[1], kNoName);
    case Op::kOr:
    case Op::kBitOr:
    case Op::kMaximum:
      return LLVMBuildOr(builder_, v[0], v[1], kNoName);
    case Op::kXor:
    case Op::kBitXor:
      return LLVMBuildXor(builder_, v[0], v[1], kNoName);
    case Op::kNot:
    case Op::kBitNot:
      return LLVMBuildNot(builder_, v[0], kNoName);
    default:
      return compare_integers(op, false, v[0], v[1]);
  }
}

// By less than nothing, or by the width or more: nothing is left, of a right shift the sign.
LLVMValueRef Vectors::shift(Op op, DType type, LLVMValueRef a, LLVMValueRef by) const {
  const auto width = static_cast<uint64_t>(graph::itemsize(type)) * 8;
  LLVMValueRef far = LLVMBuildICmp(builder_, LLVMIntUGE, by, same(by, width), kNoName);
  LLVMValueRef near = LLVMBuildSelect(builder_, far, same(by, width - 1), by, kNoName);
  if (op == Op::kShiftRight && is_signed(type)) return LLVMBuildAShr(builder_, a, near, kNoName);
  LLVMValueRef shifted =
      op == Op::kShiftLeft ? LLVMBuildShl(builder_, a, near, kNoName) : LLVMBuildLShr(builder_, a, near, kNoName);
  return LLVMBuildSelect(builder_, far, same(a, 0), shifted, kNoName);
}

LLVMValueRef Vectors::of_integers(Op op, DType type, std::span<const LLVMValueRef> v) const {
  switch (op) {
    case Op::kAdd:
      return LLVMBuildAdd(builder_, v[0], v[1], kNoName);
    case Op::kSubtract:
      return LLVMBuildSub(builder_, v[0], v[1], kNoName);
    case Op::kMultiply:
      return LLVMBuildMul(builder_, v[0], v[1], kNoName);
    case Op::kNegate:
      return LLVMBuildNeg(builder_, v[0], kNoName);
    case Op::kBitAnd:
      return LLVMBuildAnd(builder_, v[0], v[1], kNoName);
    case Op::kBitOr:
      return LLVMBuildOr(builder_, v[0], v[1], kNoName);
    case Op::kBitXor:
      return LLVMBuildXor(builder_, v[0], v[1], kNoName);
    case Op::kBitNot:
      return LLVMBuildNot(builder_, v[0], kNoName);
    case Op::kShiftLeft:
    case Op::kShiftRight:
      return shift(op, type, v[0], v[1]);
    case Op::kMaximum:
    case Op::kFMax:
      return LLVMBuildSelect(builder_, compare_integers(Op::kGreater, is_signed(type), v[0], v[1]), v[0], v[1],
                             kNoName);
    case Op::kMinimum:
    case Op::kFMin:
      return LLVMBuildSelect(builder_, compare_integers(Op::kLess, is_signed(type), v[0], v[1]), v[0], v[1], kNoName);
    case Op::kAbs:
      if (!is_signed(type)) return v[0];
      return LLVMBuildSelect(builder_, compare_integers(Op::kLess, true, v[0], same(v[0], 0)),
                             LLVMBuildNeg(builder_, v[0], kNoName), v[0], kNoName);
    case Op::kCeil:
    case Op::kFloor:
    case Op::kTrunc:
    case Op::kRound:
      return v[0];
    default:
      return compare_integers(op, is_signed(type), v[0], v[1]);
  }
}

// max and min give nan where one is nan, fmax and fmin the other.
LLVMValueRef Vectors::extreme(Op op, LLVMValueRef a, LLVMValueRef b) const {
  const bool largest = op == Op::kMaximum || op == Op::kFMax;
  const bool keeps_nan = op == Op::kMaximum || op == Op::kMinimum;
  LLVMValueRef takes_a =
      LLVMBuildFCmp(builder_, keeps_nan ? (largest ? LLVMRealUGT : LLVMRealULT) : (largest ? LLVMRealOGT : LLVMRealOLT),
                    a, b, kNoName);
  LLVMValueRef b_is_nan = LLVMBuildFCmp(builder_, LLVMRealUNO, b, b, kNoName);
  LLVMValueRef chosen = LLVMBuildSelect(builder_, takes_a, a, b, kNoName);
  return LLVMBuildSelect(builder_, b_is_nan, keeps_nan ? b : a, chosen, kNoName);
}

LLVMValueRef Vectors::of_floats(Op op, DType type, std::span<const LLVMValueRef> v) const {
  const LLVMTypeRef overload = vector(scalar(type));
  switch (op) {
    case Op::kAdd:
      return LLVMBuildFAdd(builder_, v[0], v[1], kNoName);
    case Op::kSubtract:
      return LLVMBuildFSub(builder_, v[0], v[1], kNoName);
    case Op::kMultiply:
      return LLVMBuildFMul(builder_, v[0], v[1], kNoName);
    case Op::kDivide:
      return LLVMBuildFDiv(builder_, v[0], v[1], kNoName);
    case Op::kNegate:
      return LLVMBuildFNeg(builder_, v[0], kNoName);
    case Op::kMaximum:
    case Op::kMinimum:
    case Op::kFMax:
    case Op::kFMin:
      return extreme(op, v[0], v[1]);
    case Op::kAbs:
      return intrinsic("llvm.fabs", {&overload, 1}, v);
    case Op::kCeil:
      return intrinsic("llvm.ceil", {&overload, 1}, v);
    case Op::kFloor:
      return intrinsic("llvm.floor", {&overload, 1}, v);
    case Op::kTrunc:
      return intrinsic("llvm.trunc", {&overload, 1}, v);
    case Op::kRound:
      return intrinsic("llvm.nearbyint", {&overload, 1}, v);
    case Op::kSqrt:
      return intrinsic("llvm.sqrt", {&overload, 1}, v);
    case Op::kCopySign:
      return intrinsic("llvm.copysign", {&overload, 1}, v);
    case Op::kIsNan:
      return LLVMBuildFCmp(builder_, LLVMRealUNO, v[0], v[0], kNoName);
    case Op::kSignBit: {
      LLVMValueRef bits = LLVMBuildBitCast(builder_, v[0], vector(type == DType::kF32 ? i32_ : i64_), kNoName);
      return LLVMBuildICmp(builder_, LLVMIntSLT, bits, same(bits, 0), kNoName);
    }
    default:
      return v.size() == 2 ? compare_floats(op, v[0], v[1]) : nullptr;
  }
}

LLVMValueRef Vectors::part(LLVMValueRef value, unsigned first, unsigned count) const {
  std::vector<LLVMValueRef> mask;
  mask.reserve(count);
  for (unsigned i = 0; i < count; ++i) mask.push_back(LLVMConstInt(i32_, first + i, false));
  return LLVMBuildShuffleVector(builder_, value, LLVMGetUndef(LLVMTypeOf(value)), LLVMConstVector(mask.data(), count),
                                kNoName);
}

LLVMValueRef Vectors::joined(std::span<const LLVMValueRef> parts) const {
  if (parts.size() == 1) return parts[0];
  LLVMValueRef left = joined(parts.first(parts.size() / 2)), right = joined(parts.last(parts.size() / 2));
  const unsigned count = 2 * LLVMGetVectorSize(LLVMTypeOf(left));
  std::vector<LLVMValueRef> mask;
  mask.reserve(count);
  for (unsigned i = 0; i < count; ++i) mask.push_back(LLVMConstInt(i32_, i, false));
  return LLVMBuildShuffleVector(builder_, left, right, LLVMConstVector(mask.data(), count), kNoName);
}

LLVMValueRef Vectors::call(Op op, DType type, std::span<const LLVMValueRef> v) const {
  const VectorFunction found = vector_function(op, type, wide_);
  if (found.name.empty()) return nullptr;
  LLVMTypeRef one = LLVMVectorType(scalar(type), found.lanes);
  std::vector<LLVMTypeRef> types(v.size(), one);
  LLVMTypeRef signature = LLVMFunctionType(one, types.data(), static_cast<unsigned>(types.size()), false);
  LLVMValueRef function = LLVMGetNamedFunction(module_, found.name.c_str());
  if (!function) function = LLVMAddFunction(module_, found.name.c_str(), signature);
  std::vector<LLVMValueRef> results;
  for (unsigned first = 0; first < lanes_; first += found.lanes) {
    std::vector<LLVMValueRef> arguments;
    arguments.reserve(v.size());
    for (LLVMValueRef value : v) arguments.push_back(part(value, first, found.lanes));
    results.push_back(LLVMBuildCall2(builder_, signature, function, arguments.data(),
                                     static_cast<unsigned>(arguments.size()), kNoName));
  }
  return joined(results);
}

LLVMValueRef Vectors::compute(Op op, DType type, std::span<const LLVMValueRef> v, std::string* error) const {
  LLVMValueRef result;
  if (op == Op::kWhere) {
    result = LLVMBuildSelect(builder_, v[0], v[1], v[2], kNoName);
  } else if (type == DType::kBool) {
    result = of_truths(op, v);
  } else if (!graph::is_floating(type)) {
    result = of_integers(op, type, v);
  } else {
    result = of_floats(op, type, v);
    if (!result && type == DType::kF32) result = elementary_f32(*this, builder_, op, v[0]);
    if (!result) result = call(op, type, v);
  }
  if (!result) *error = "no machine code for " + std::string(graph::spelling(op));
  return result;
}

LLVMValueRef Vectors::start(Op op, DType type) const {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto bits = static_cast<unsigned>(graph::itemsize(type)) * 8;
  const int64_t highest = is_signed(type) ? static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1) : 255;
  const int64_t lowest = is_signed(type) ? -highest - 1 : 0;
  switch (op) {
    case Op::kProduct:
    case Op::kAll:
      return number(1, 1, type);
    case Op::kLargest:
      return number(-infinity, lowest, type);
    case Op::kSmallest:
      return number(infinity, highest, type);
    default:
      return number(0, 0, type);
  }
}

LLVMValueRef Vectors::combine(Op op, DType type, LLVMValueRef a, LLVMValueRef b) const {
  const std::array<LLVMValueRef, 2> both = {a, b};
  std::string unused;
  return compute(graph::combining(op), type, both, &unused);
}

LLVMValueRef Vectors::across(Op op, DType type, LLVMValueRef value) const {
  for (unsigned half = lanes_ / 2; half > 0; half /= 2) {
    std::vector<LLVMValueRef> mask;
    mask.reserve(lanes_);
    for (unsigned i = 0; i < lanes_; ++i) mask.push_back(LLVMConstInt(i32_, (i + half) % lanes_, false));
    LLVMValueRef turned = LLVMBuildShuffleVector(builder_, value, LLVMGetUndef(LLVMTypeOf(value)),
                                                 LLVMConstVector(mask.data(), lanes_), kNoName);
    value = combine(op, type, value, turned);
  }
  return value;
}

}  // namespace framejit::codegen
