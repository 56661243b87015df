#include "graph/dtype.h"

#include <array>

namespace framejit::graph {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  int itemsize;
};

constexpr Row kRows[] = {
    {DType::kU8, "u8", 1},
    {DType::kI8, "i8", 1},
    {DType::kI16, "i16", 2},
    {DType::kI32, "i32", 4},
    {DType::kI64, "i64", 8},
    {DType::kF16, "f16", 2},
    {DType::kF32, "f32", 4},
    {DType::kF64, "f64", 8},
    {DType::kC32, "c32", 4},
    {DType::kC64, "c64", 8},
    {DType::kC128, "c128", 16},
    {DType::kBool, "bool", 1},
    {DType::kQI8, "qi8", 1},
    {DType::kQU8, "qu8", 1},
    {DType::kQI32, "qi32", 4},
    {DType::kBF16, "bf16", 2},
    {DType::kF8E5M2, "f8e5m2", 1},
    {DType::kF8E4M3FN, "f8e4m3fn", 1},
    {DType::kF8E5M2FNUZ, "f8e5m2fnuz", 1},
    {DType::kF8E4M3FNUZ, "f8e4m3fnuz", 1},
    {DType::kU16, "u16", 2},
    {DType::kU32, "u32", 4},
    {DType::kU64, "u64", 8},
    {DType::kF8E8M0FNU, "f8e8m0fnu", 1},
    {DType::kUndefined, "undefined", 0},
};

constexpr size_t kTableSize = 48;

constexpr auto kByNumber = [] {
  std::array<int8_t, kTableSize> table{};
  for (auto& slot : table) slot = -1;
  for (size_t i = 0; i < std::size(kRows); ++i)
    if (static_cast<size_t>(kRows[i].dtype) < kTableSize)
      table[static_cast<size_t>(kRows[i].dtype)] = static_cast<int8_t>(i);
  return table;
}();

const Row* row_of(DType dtype) {
  auto number = static_cast<size_t>(dtype);
  if (dtype == DType::kUndefined) return &kRows[std::size(kRows) - 1];
  if (number >= kTableSize || kByNumber[number] < 0) return nullptr;
  return &kRows[kByNumber[number]];
}

bool is_barebone_unsigned(DType d) { return d == DType::kU16 || d == DType::kU32 || d == DType::kU64; }

// Integers and bool, by how much they hold: bool < u8, i8 < i16 < i32 < i64; u8 with i8 needs i16.
int integer_rank(DType d) {
  switch (d) {
    case DType::kBool:
      return 0;
    case DType::kU8:
      return 1;
    case DType::kI8:
      return 1;
    case DType::kI16:
      return 2;
    case DType::kI32:
      return 3;
    default:
      return 4;
  }
}

DType promote_floating(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::kF64 || b == DType::kF64) return DType::kF64;
  return DType::kF32;  // f32 with a half, or f16 with bf16
}

DType promote_complex(DType a, DType b) {
  DType real_a = is_complex(a) ? to_real(a) : a;
  DType real_b = is_complex(b) ? to_real(b) : b;
  if (!is_floating(real_a)) return to_complex(real_b);
  if (!is_floating(real_b)) return to_complex(real_a);
  return to_complex(promote_floating(real_a, real_b));
}

}  // namespace

std::string_view dtype_name(DType dtype) {
  const Row* row = row_of(dtype);
  return row ? row->name : "?";
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return row.dtype;
  return std::nullopt;
}

int itemsize(DType dtype) {
  const Row* row = row_of(dtype);
  return row ? row->itemsize : 0;
}

bool is_floating(DType d) { return (d >= DType::kF16 && d <= DType::kF64) || d == DType::kBF16 || is_float8(d); }
bool is_complex(DType d) { return d >= DType::kC32 && d <= DType::kC128; }
bool is_integral(DType d, bool include_bool) {
  return d <= DType::kI64 || is_barebone_unsigned(d) || (include_bool && d == DType::kBool);
}
bool is_float8(DType d) { return (d >= DType::kF8E5M2 && d <= DType::kF8E4M3FNUZ) || d == DType::kF8E8M0FNU; }

DType to_real(DType d) {
  switch (d) {
    case DType::kC32:
      return DType::kF16;
    case DType::kC64:
      return DType::kF32;
    case DType::kC128:
      return DType::kF64;
    default:
      return d;
  }
}

DType to_complex(DType d) {
  switch (d) {
    case DType::kF16:
      return DType::kC32;
    case DType::kBF16:
    case DType::kF32:
      return DType::kC64;
    case DType::kF64:
      return DType::kC128;
    default:
      return d;
  }
}

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  if (!row_of(a) || !row_of(b) || a == DType::kUndefined || b == DType::kUndefined) return DType::kUndefined;
  if (is_float8(a) || is_float8(b)) return DType::kUndefined;
  bool quantised = (a >= DType::kQI8 && a <= DType::kQI32) || (b >= DType::kQI8 && b <= DType::kQI32);
  if (quantised) return DType::kUndefined;
  if (is_barebone_unsigned(a) || is_barebone_unsigned(b)) {
    if (is_floating(a)) return a;
    if (is_floating(b)) return b;
    return DType::kUndefined;
  }
  if (is_complex(a) || is_complex(b)) return promote_complex(a, b);
  bool float_a = is_floating(a), float_b = is_floating(b);
  if (float_a && float_b) return promote_floating(a, b);
  if (float_a) return a;
  if (float_b) return b;
  int rank_a = integer_rank(a), rank_b = integer_rank(b);
  if (rank_a == 1 && rank_b == 1) return DType::kI16;  // u8 with i8
  return rank_a > rank_b ? a : b;
}

bool can_cast(DType from, DType to) {
  if (is_complex(from) && !is_complex(to)) return false;
  if (is_floating(from) && is_integral(to, false)) return false;
  if (from != DType::kBool && to == DType::kBool) return false;
  return true;
}

}  // namespace framejit::graph
