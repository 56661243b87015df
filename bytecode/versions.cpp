#include "bytecode/versions.h"

#include <array>

namespace framejit::bytecode {
namespace {

using enum Version;
using enum LineFormat;
using enum CallLayout;

constexpr const char* kLocalBefore311 = "local variable '%U' referenced before assignment";
constexpr const char* kFreeBefore311 = "free variable '%U' referenced before assignment in enclosing scope";
constexpr const char* kLocal = "cannot access local variable '%U' where it is not associated with a value";
constexpr const char* kFree =
    "cannot access free variable '%U' where it is not associated with a value in enclosing scope";

//  version  name  unit line format  blocks resume precall shared end_for call layout, compare ==, load_fast_checked,
//  messages of unbound reads, list_asks_length, needle_first, close_returns, sum_compensates
constexpr std::array<VersionTraits, kVersionCount> kTraits = {{
    {kPy38, "3.8", 1, kLnotab, true, false, false, false, 0, kPlain, 2, "LOAD_FAST", kLocalBefore311, kFreeBefore311,
     true, true, false, false},
    {kPy39, "3.9", 1, kLnotab, true, false, false, false, 0, kPlain, 2, "LOAD_FAST", kLocalBefore311, kFreeBefore311,
     true, false, false, false},
    {kPy310, "3.10", 2, kLineTable, true, false, false, false, 0, kPlain, 2, "LOAD_FAST", kLocalBefore311,
     kFreeBefore311, false, false, false, false},
    {kPy311, "3.11", 2, kLocations, false, true, true, true, 0, kNullBelow, 2, "LOAD_FAST", kLocal, kFree, false, false,
     false, false},
    {kPy312, "3.12", 2, kLocations, false, true, false, true, 1, kNullBelow, 2 << 4 | 8, "LOAD_FAST_CHECK", kLocal,
     kFree, false, false, false, true},
    {kPy313, "3.13", 2, kLocations, false, true, false, true, 2, kNullAbove, 2 << 5 | 16 | 8, "LOAD_FAST_CHECK", kLocal,
     kFree, false, false, true, true},
}};
constexpr bool rows_in_order() {
  for (int i = 0; i < kVersionCount; ++i) {
    if (static_cast<int>(kTraits[i].version) != i) return false;
  }
  return true;
}
static_assert(rows_in_order());

}  // namespace

const VersionTraits& traits(Version version) { return kTraits[static_cast<size_t>(version)]; }

}  // namespace framejit::bytecode
