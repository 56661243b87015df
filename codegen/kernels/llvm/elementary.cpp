#include "codegen/kernels/llvm/elementary.h"

#include <iterator>

namespace framejit::codegen {

using graph::DType;

namespace {

constexpr const char* kNoName = "";

// Least maxima of the relative error, fitted over the interval by weighted least squares; rounded to f32.
// (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2
constexpr double kExp[] = {0.5, 0.166665181517601, 0.04166620597243309, 0.008368882350623608, 0.0013950476422905922};
// (tanh(x) / x - 1) / x^2 of x^2, for |x| <= 0.625
constexpr double kTanh[] = {-0.3333328366279602, 0.13331490755081177, -0.05374349653720856, 0.020650578662753105,
                            -0.005717036779969931};
constexpr double kTanhSplit = 0.625;
// erf(x) / x - 1 of x^2, for |x| <= 0.84375
constexpr double kErf[] = {0.12837916612625122,   -0.3761258125305176,  0.11282824724912643,
                           -0.026807021349668503, 0.005058678798377514, -0.0006359995459206402};
// log(1 - erf(x)) for 0.84375 <= x <= 4, beyond which erf is 1; the error weighs as in erf
constexpr double kErfc[] = {0.0001544238330097869,  -1.129415512084961,     -0.6335515379905701,
                            -0.10805104672908783,   0.024969028308987617,   -0.004113157745450735,
                            0.00042236526496708393, -2.0037521608173847e-05};
constexpr double kErfSplit = 0.84375;

class Elementary {
 public:
  Elementary(const Vectors& v, LLVMBuilderRef builder) : v_(v), b_(builder), f32_(v.vector(v.scalar(DType::kF32))) {
    i32_ = v.vector(v.scalar(DType::kI32));
  }

  // x = n ln(2) + r, exp(x) = 2^n exp(r). In two factors, so that what is subnormal or infinite comes out of the
  // product.
  LLVMValueRef exp(LLVMValueRef x) const {
    // Beyond these all is 0 or infinite. What is not a number passes both comparisons.
    x = LLVMBuildSelect(b_, LLVMBuildFCmp(b_, LLVMRealOLT, x, number(-104), kNoName), number(-104), x, kNoName);
    x = LLVMBuildSelect(b_, LLVMBuildFCmp(b_, LLVMRealOGT, x, number(89), kNoName), number(89), x, kNoName);
    // Added to this, a number of less than 2^22 has its nearest integer in the last bits.
    const double shifter = 12582912.0;
    LLVMValueRef shifted = fma(x, number(1.44269504088896341), number(shifter));
    LLVMValueRef whole = LLVMBuildFSub(b_, shifted, number(shifter), kNoName);
    LLVMValueRef n = LLVMBuildSub(b_, LLVMBuildBitCast(b_, shifted, i32_, kNoName), integer(0x4b400000), kNoName);
    LLVMValueRef r = fma(whole, number(-0.693145751953125), x);
    r = fma(whole, number(-1.428606765330187e-06), r);
    LLVMValueRef p = polynomial(kExp, r);
    LLVMValueRef y = LLVMBuildFAdd(b_, fma(LLVMBuildFMul(b_, p, r, kNoName), r, r), number(1), kNoName);
    LLVMValueRef half = LLVMBuildAShr(b_, n, integer(1), kNoName);
    LLVMValueRef other = LLVMBuildSub(b_, n, half, kNoName);
    return LLVMBuildFMul(b_, LLVMBuildFMul(b_, y, power_of_two(half), kNoName), power_of_two(other), kNoName);
  }

  // Near 0 a polynomial; beyond, 1 - 2 / (exp(2 |x|) + 1) with the sign of x.
  LLVMValueRef tanh(LLVMValueRef x) const {
    LLVMValueRef magnitude = v_.intrinsic("llvm.fabs", {&f32_, 1}, {&x, 1});
    LLVMValueRef square = LLVMBuildFMul(b_, x, x, kNoName);
    LLVMValueRef near = fma(LLVMBuildFMul(b_, polynomial(kTanh, square), square, kNoName), x, x);
    LLVMValueRef e = exp(LLVMBuildFMul(b_, magnitude, number(2), kNoName));
    LLVMValueRef rest = LLVMBuildFDiv(b_, number(2), LLVMBuildFAdd(b_, e, number(1), kNoName), kNoName);
    LLVMValueRef pair[] = {LLVMBuildFSub(b_, number(1), rest, kNoName), x};
    LLVMValueRef far = v_.intrinsic("llvm.copysign", {&f32_, 1}, pair);
    LLVMValueRef is_near = LLVMBuildFCmp(b_, LLVMRealOLT, magnitude, number(kTanhSplit), kNoName);
    return LLVMBuildSelect(b_, is_near, near, far, kNoName);
  }

  // Near 0 a polynomial; beyond, 1 - exp(polynomial) with the sign of x.
  LLVMValueRef erf(LLVMValueRef x) const {
    LLVMValueRef magnitude = v_.intrinsic("llvm.fabs", {&f32_, 1}, {&x, 1});
    LLVMValueRef near = fma(polynomial(kErf, LLVMBuildFMul(b_, x, x, kNoName)), x, x);
    LLVMValueRef is_large = LLVMBuildFCmp(b_, LLVMRealOGT, magnitude, number(4), kNoName);
    LLVMValueRef bounded = LLVMBuildSelect(b_, is_large, number(4), magnitude, kNoName);
    LLVMValueRef pair[] = {LLVMBuildFSub(b_, number(1), exp(polynomial(kErfc, bounded)), kNoName), x};
    LLVMValueRef far = v_.intrinsic("llvm.copysign", {&f32_, 1}, pair);
    LLVMValueRef is_near = LLVMBuildFCmp(b_, LLVMRealOLT, magnitude, number(kErfSplit), kNoName);
    return LLVMBuildSelect(b_, is_near, near, far, kNoName);
  }

 private:
  LLVMValueRef number(double value) const { return v_.number(value, 0, DType::kF32); }
  LLVMValueRef integer(int64_t value) const { return v_.number(0, value, DType::kI32); }
  LLVMValueRef fma(LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) const {
    LLVMValueRef operands[] = {a, b, c};
    return v_.intrinsic("llvm.fma", {&f32_, 1}, operands);
  }
  template <size_t kCount>
  LLVMValueRef polynomial(const double (&coefficients)[kCount], LLVMValueRef x) const {
    LLVMValueRef value = number(coefficients[kCount - 1]);
    for (size_t i = kCount - 1; i-- > 0;) value = fma(value, x, number(coefficients[i]));
    return value;
  }
  LLVMValueRef power_of_two(LLVMValueRef n) const {
    LLVMValueRef bits = LLVMBuildShl(b_, LLVMBuildAdd(b_, n, integer(127), kNoName), integer(23), kNoName);
    return LLVMBuildBitCast(b_, bits, f32_, kNoName);
  }

  const Vectors& v_;
  LLVMBuilderRef b_;
  LLVMTypeRef f32_, i32_;
};

}  // namespace

LLVMValueRef elementary_f32(const Vectors& v, LLVMBuilderRef builder, graph::ExpressionOp op, LLVMValueRef x) {
  const Elementary functions(v, builder);
  if (op == graph::ExpressionOp::kExp) return functions.exp(x);
  if (op == graph::ExpressionOp::kTanh) return functions.tanh(x);
  if (op == graph::ExpressionOp::kErf) return functions.erf(x);
  return nullptr;
}

}  // namespace framejit::codegen
