#include "codegen/kernels/cuda/prelude.h"

namespace framejit::codegen {

const char* const kCudaPrelude = R"cuda(#ifndef FRAMEJIT_PRELUDE
#define FRAMEJIT_PRELUDE
#define FJ inline __device__
namespace fj {

typedef unsigned char u8;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;

// Integers wrap around: arithmetic is on unsigned ones, of 32 bits at least.
template <class T> struct Bits { typedef unsigned type; };
template <> struct Bits<i64> { typedef unsigned long long type; };

template <class To, class From>
FJ To same_bits(From from) {
  union { From from; To to; } both;
  both.from = from;
  return both.to;
}
FJ float f32(unsigned bits) { return same_bits<float>(bits); }
FJ double f64(unsigned long long bits) { return same_bits<double>(bits); }

// Half types, to the nearest value, ties to even.
FJ float from_bf16(unsigned short half) { return f32((unsigned)half << 16); }
FJ unsigned short to_bf16(float value) {
  const unsigned bits = same_bits<unsigned>(value);
  if (value != value) return 0x7fc0;
  return (unsigned short)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
FJ float from_f16(unsigned short half) {
  const unsigned sign = (half & 0x8000u) << 16, rest = half & 0x7fffu;
  if (rest >= 0x7c00u) return f32(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  // Exact, and what is subnormal as a half is so before the product too.
  return f32(sign | same_bits<unsigned>(f32(rest << 13) * f32(0x77800000u)));
}
FJ unsigned short to_f16(float value) {
  const unsigned bits = same_bits<unsigned>(value), sign = (bits >> 16) & 0x8000u, rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return (unsigned short)(sign | 0x7e00u | ((rest >> 13) & 0x3ffu));
  if (rest >= 0x477ff000u) return (unsigned short)(sign | 0x7c00u);
  // Below the least normal half: the sum has a subnormal half's bits in its last ones.
  if (rest < 0x38800000u)
    return (unsigned short)(sign | (same_bits<unsigned>(f32(rest) + 0.5f) - 0x3f000000u));
  return (unsigned short)(sign | ((rest - 0x38000000u + 0xfffu + ((rest >> 13) & 1)) >> 13));
}
FJ float round_bf16(float value) { return from_bf16(to_bf16(value)); }
FJ float round_f16(float value) { return from_f16(to_f16(value)); }

template <class T> FJ T load(const char* at) { return *reinterpret_cast<const T*>(at); }
FJ bool load_bool(const char* at) { return load<u8>(at) != 0; }
FJ float load_bf16(const char* at) { return from_bf16(load<unsigned short>(at)); }
FJ float load_f16(const char* at) { return from_f16(load<unsigned short>(at)); }
template <class T> FJ void store(char* at, T value) { *reinterpret_cast<T*>(at) = value; }
FJ void store_bool(char* at, bool value) { store<u8>(at, value); }
FJ void store_bf16(char* at, float value) { store<unsigned short>(at, to_bf16(value)); }
FJ void store_f16(char* at, float value) { store<unsigned short>(at, to_f16(value)); }

#define FJ_ARITHMETIC(name, sign)                                                                                      \
  FJ float name(float a, float b) { return a sign b; }                                                                 \
  FJ double name(double a, double b) { return a sign b; }                                                              \
  template <class T>                                                                                                   \
  FJ T name(T a, T b) {                                                                                                \
    typedef typename Bits<T>::type U;                                                                                  \
    return (T)((U)a sign (U)b);                                                                                        \
  }
FJ_ARITHMETIC(add, +)
FJ_ARITHMETIC(subtract, -)
FJ_ARITHMETIC(multiply, *)
FJ bool multiply(bool a, bool b) { return a && b; }
FJ float negate(float a) { return -a; }
FJ double negate(double a) { return -a; }
template <class T> FJ T negate(T a) { return subtract((T)0, a); }
template <class T> FJ T flip(T a) { return (T)~a; }
FJ bool flip(bool a) { return !a; }

// By less than nothing, or by the width or more: nothing is left, of a right shift the sign.
template <class T> FJ bool is_far(T by) { return by < (T)0 || by >= (T)(sizeof(T) * 8); }
template <class T> FJ T shift_left(T a, T by) {
  typedef typename Bits<T>::type U;
  return is_far(by) ? (T)0 : (T)((U)a << (int)by);
}
template <class T> FJ T shift_right(T a, T by) {
  if (is_far(by)) return a < (T)0 ? (T)-1 : (T)0;
  return (T)(a >> (int)by);
}

// max and min give nan where one is nan, fmax and fmin the other.
template <class T> FJ T maximum(T a, T b) { return b != b ? b : a <= b ? b : a; }
template <class T> FJ T minimum(T a, T b) { return b != b ? b : a >= b ? b : a; }
template <class T> FJ T fmaximum(T a, T b) { return b != b ? a : a > b ? a : b; }
template <class T> FJ T fminimum(T a, T b) { return b != b ? a : a < b ? a : b; }

template <class T> FJ bool sign_bit(T a) { return a < (T)0; }
FJ bool sign_bit(float a) { return same_bits<i32>(a) < 0; }
FJ bool sign_bit(double a) { return same_bits<i64>(a) < 0; }
template <class T> FJ T absolute(T a) { return a < (T)0 ? negate(a) : a; }
FJ float absolute(float a) { return ::fabsf(a); }
FJ double absolute(double a) { return ::fabs(a); }

#define FJ_INTEGRAL(name)                                                                                              \
  FJ float name(float a) { return ::name##f(a); }                                                                      \
  FJ double name(double a) { return ::name(a); }                                                                       \
  template <class T>                                                                                                   \
  FJ T name(T a) {                                                                                                     \
    return a;                                                                                                          \
  }
FJ_INTEGRAL(ceil)
FJ_INTEGRAL(floor)
FJ_INTEGRAL(trunc)
FJ_INTEGRAL(rint)

#define FJ_FUNCTION(name)                                                                                              \
  FJ float name(float a) { return ::name##f(a); }                                                                      \
  FJ double name(double a) { return ::name(a); }
FJ_FUNCTION(exp)
FJ_FUNCTION(exp2)
FJ_FUNCTION(expm1)
FJ_FUNCTION(log)
FJ_FUNCTION(log2)
FJ_FUNCTION(log10)
FJ_FUNCTION(log1p)
FJ_FUNCTION(sqrt)
FJ_FUNCTION(sin)
FJ_FUNCTION(cos)
FJ_FUNCTION(tan)
FJ_FUNCTION(asin)
FJ_FUNCTION(acos)
FJ_FUNCTION(atan)
FJ_FUNCTION(sinh)
FJ_FUNCTION(cosh)
FJ_FUNCTION(tanh)
FJ_FUNCTION(asinh)
FJ_FUNCTION(acosh)
FJ_FUNCTION(atanh)
FJ_FUNCTION(erf)
FJ_FUNCTION(erfc)
FJ_FUNCTION(lgamma)

#define FJ_FUNCTION_OF_TWO(name)                                                                                       \
  FJ float name(float a, float b) { return ::name##f(a, b); }                                                          \
  FJ double name(double a, double b) { return ::name(a, b); }
FJ_FUNCTION_OF_TWO(pow)
FJ_FUNCTION_OF_TWO(atan2)
FJ_FUNCTION_OF_TWO(hypot)
FJ_FUNCTION_OF_TWO(copysign)
FJ_FUNCTION_OF_TWO(fmod)

}  // namespace fj
#endif
)cuda";

}  // namespace framejit::codegen
