// Typed 32-bit indices. An id of one kind never converts to an id of another.
#pragma once

#include <cstdint>
#include <functional>

namespace framejit {

template <class Tag>
struct Id {
  static constexpr uint32_t kInvalid = 0xffffffffu;
  uint32_t value = kInvalid;

  constexpr Id() = default;
  constexpr explicit Id(uint32_t v) : value(v) {}
  constexpr explicit Id(size_t v) : value(static_cast<uint32_t>(v)) {}
  constexpr explicit Id(int v) : value(static_cast<uint32_t>(v)) {}
  constexpr bool valid() const { return value != kInvalid; }
  constexpr size_t index() const { return value; }
  friend constexpr bool operator==(Id a, Id b) { return a.value == b.value; }
  friend constexpr bool operator!=(Id a, Id b) { return a.value != b.value; }
  friend constexpr bool operator<(Id a, Id b) { return a.value < b.value; }
};

}  // namespace framejit

template <class Tag>
struct std::hash<framejit::Id<Tag>> {
  size_t operator()(framejit::Id<Tag> id) const noexcept { return std::hash<uint32_t>{}(id.value); }
};
