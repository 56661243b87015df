#include "graph/guard.h"

namespace framejit::graph {
namespace {

size_t hash_of(const Guard& g) {
  uint64_t h = static_cast<uint64_t>(g.kind) + 1;
  for (uint64_t part : {uint64_t{g.source.value}, uint64_t{g.object.value}, uint64_t{g.other.value}, g.number})
    h = (h ^ part) * 0x9E3779B97F4A7C15ull, h ^= h >> 29;
  return h;
}

bool equal(const Guard& a, const Guard& b) {
  return a.kind == b.kind && a.source == b.source && a.object == b.object && a.other == b.other && a.number == b.number;
}

}  // namespace

bool GuardList::add(const Guard& guard) {
  const bool fresh = index_.add(hash_of(guard), [&](uint32_t row) { return equal(rows_[row], guard); }).fresh;
  if (fresh) rows_.push_back(guard);
  return fresh;
}

const char* guard_kind_name(GuardKind kind) {
  static const char* const kNames[] = {
#define GUARD(kind, operands, text) #kind,
#include "graph/guard.def"
#undef GUARD
  };
  return kNames[static_cast<size_t>(kind)];
}

const char* guard_text_pattern(GuardKind kind) {
  static const char* const kTexts[] = {
#define GUARD(kind, operands, text) text,
#include "graph/guard.def"
#undef GUARD
  };
  return kTexts[static_cast<size_t>(kind)];
}

}  // namespace framejit::graph
