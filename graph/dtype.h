// Element types. The numbers are those of c10::ScalarType, so that runtime/torch converts by a cast (checked there by
// static_assert); kUndefined alone differs, because c10's value for it moves between releases.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace framejit::graph {

enum class DType : uint8_t {
  kU8 = 0,
  kI8 = 1,
  kI16 = 2,
  kI32 = 3,
  kI64 = 4,
  kF16 = 5,
  kF32 = 6,
  kF64 = 7,
  kC32 = 8,
  kC64 = 9,
  kC128 = 10,
  kBool = 11,
  kQI8 = 12,
  kQU8 = 13,
  kQI32 = 14,
  kBF16 = 15,
  kF8E5M2 = 23,
  kF8E4M3FN = 24,
  kF8E5M2FNUZ = 25,
  kF8E4M3FNUZ = 26,
  kU16 = 27,
  kU32 = 28,
  kU64 = 29,
  kF8E8M0FNU = 44,
  kUndefined = 255,
};

// "f32", "bf16", "i64", "bool", ...; "undefined" for kUndefined, "dtype<N>" is never produced: unknown numbers give
// "?".
std::string_view dtype_name(DType dtype);
std::optional<DType> parse_dtype(std::string_view name);
// Bytes per element; 0 for kUndefined and for numbers that this table does not know.
int itemsize(DType dtype);

bool is_floating(DType dtype);
bool is_complex(DType dtype);
// Bool counts as integral only when include_bool.
bool is_integral(DType dtype, bool include_bool);
bool is_float8(DType dtype);
// The real type of a complex one (c64 -> f32) and back (f32 -> c64); the type itself otherwise.
DType to_real(DType dtype);
DType to_complex(DType dtype);

// c10::promoteTypes; kUndefined when LibTorch would raise (float8 with another type, u64 with a signed one, ...).
DType promote_types(DType a, DType b);
// c10::canCast: false where an in-place or out= result of type `from` may not be stored as `to`.
bool can_cast(DType from, DType to);

}  // namespace framejit::graph
