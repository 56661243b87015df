#include "graph/operand.h"

#include <cstring>

namespace framejit::graph {

std::string_view kind_name(Operand::Kind kind) {
  constexpr std::string_view kNames[] = {"none",    "value",  "value list", "int",           "float",     "bool",
                                         "complex", "string", "int list",   "float list",    "bool list", "scalar list",
                                         "dtype",   "layout", "device",     "memory format", "const",     "graph"};
  auto index = static_cast<size_t>(kind);
  return index < std::size(kNames) ? kNames[index] : "?";
}

void Operand::fail_kind(Kind expected) const {
  FJ_CHECK(false, "expected a {} operand, got {}", kind_name(expected), kind_name(kind_));
  __builtin_unreachable();
}

size_t Operand::bytes() const {
  switch (kind_) {
    case Kind::kValues:
      return size_ * sizeof(ValueId);
    case Kind::kComplex:
    case Kind::kFloats:
      return size_ * sizeof(double);
    case Kind::kString:
    case Kind::kBools:
      return size_;
    case Kind::kInts:
      return size_ * sizeof(int64_t);
    case Kind::kScalars:
      return size_ * sizeof(Operand);
    default:
      return 0;
  }
}

bool operator==(const Operand& a, const Operand& b) {
  if (a.kind_ != b.kind_) return false;
  if (!a.is_pointer()) return a.int_ == b.int_;
  if (a.size_ != b.size_) return false;
  if (a.kind_ == Operand::Kind::kScalars) {
    auto list_a = a.as_scalars(), list_b = b.as_scalars();
    return std::equal(list_a.begin(), list_a.end(), list_b.begin());
  }
  return a.size_ == 0 || std::memcmp(a.pointer_, b.pointer_, a.bytes()) == 0;
}

}  // namespace framejit::graph
