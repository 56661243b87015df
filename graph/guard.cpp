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

void GuardList::grow() {
  std::vector<uint32_t> buckets(buckets_.empty() ? 64 : buckets_.size() * 4, 0);
  size_t mask = buckets.size() - 1;
  for (uint32_t i = 0; i < rows_.size(); ++i) {
    size_t slot = hash_of(rows_[i]) & mask;
    while (buckets[slot]) slot = (slot + 1) & mask;
    buckets[slot] = i + 1;
  }
  buckets_ = std::move(buckets);
}

bool GuardList::add(const Guard& guard) {
  if ((rows_.size() + 1) * 2 > buckets_.size()) grow();
  size_t mask = buckets_.size() - 1;
  size_t slot = hash_of(guard) & mask;
  for (; buckets_[slot]; slot = (slot + 1) & mask)
    if (equal(rows_[buckets_[slot] - 1], guard)) return false;
  rows_.push_back(guard);
  buckets_[slot] = static_cast<uint32_t>(rows_.size());
  return true;
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
