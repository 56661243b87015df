#include "graph/infer/scalar.h"

#include <cmath>
#include <cstdint>
#include <limits>

namespace framejit::graph {
namespace {

template <class T>
constexpr Range kRangeOf{static_cast<double>(std::numeric_limits<T>::lowest()),
                         static_cast<double>(std::numeric_limits<T>::max())};

bool is_unsigned(DType dtype) {
  return dtype == DType::kU8 || dtype == DType::kU16 || dtype == DType::kU32 || dtype == DType::kU64;
}

bool holds_real(DType dtype, double number) {
  if (!is_integral(dtype, false) && !std::isfinite(number)) return true;
  const Range range = range_of(dtype);
  // The largest of 64 bits are no doubles: those round up to the first that is too large.
  const bool wide = dtype == DType::kI64 || dtype == DType::kU64;
  return number >= range.lowest && (wide ? number < range.highest : number <= range.highest);
}

// Negative numbers wrap in an unsigned type.
bool holds_integer(DType dtype, int64_t number) {
  if (dtype == DType::kI64 || dtype == DType::kU64) return true;
  const double value = static_cast<double>(number);
  return holds_real(dtype, is_unsigned(dtype) ? std::abs(value) : value);
}

}  // namespace

Range range_of(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return {0, 1};
    case DType::kU8:
      return kRangeOf<uint8_t>;
    case DType::kI8:
      return kRangeOf<int8_t>;
    case DType::kU16:
      return kRangeOf<uint16_t>;
    case DType::kI16:
      return kRangeOf<int16_t>;
    case DType::kU32:
      return kRangeOf<uint32_t>;
    case DType::kI32:
      return kRangeOf<int32_t>;
    case DType::kU64:
      return kRangeOf<uint64_t>;
    case DType::kI64:
      return kRangeOf<int64_t>;
    case DType::kF16:
      return {-65504.0, 65504.0};
    case DType::kBF16:
      return {-0x1.fep127, 0x1.fep127};
    case DType::kF32:
      return kRangeOf<float>;
    default:
      return kRangeOf<double>;
  }
}

bool holds(DType dtype, const Operand& number) {
  if (dtype == DType::kBool) return number.is_scalar();
  const DType part = to_real(dtype);
  switch (number.kind()) {
    case Operand::Kind::kBool:
      return true;
    case Operand::Kind::kInt:
      return holds_integer(part, number.as_int());
    case Operand::Kind::kFloat:
      return holds_real(part, number.as_float());
    case Operand::Kind::kComplex: {
      const auto parts = number.as_complex();
      return (is_complex(dtype) || parts[1] == 0) && holds_real(part, parts[0]) && holds_real(part, parts[1]);
    }
    case Operand::Kind::kValue:  // a float of the graph, see graph/number.h
      return is_floating(dtype) || is_complex(dtype);
    default:
      return false;
  }
}

}  // namespace framejit::graph
