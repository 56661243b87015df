#include "graph/source.h"

namespace framejit::graph {
namespace {

size_t hash_of(const Source& s) {
  uint64_t h = static_cast<uint64_t>(s.kind) + 1;
  for (uint64_t part : {uint64_t{s.index}, uint64_t{s.base.value}, uint64_t{s.object.value}})
    h = (h ^ part) * 0x9E3779B97F4A7C15ull, h ^= h >> 29;
  return h;
}

bool equal(const Source& a, const Source& b) {
  return a.kind == b.kind && a.index == b.index && a.base == b.base && a.object == b.object;
}

}  // namespace

void SourceTable::grow() {
  std::vector<uint32_t> buckets(buckets_.empty() ? 64 : buckets_.size() * 2, 0);
  size_t mask = buckets.size() - 1;
  for (uint32_t i = 0; i < sources_.size(); ++i) {
    size_t slot = hash_of(sources_[i]) & mask;
    while (buckets[slot]) slot = (slot + 1) & mask;
    buckets[slot] = i + 1;
  }
  buckets_ = std::move(buckets);
}

SourceId SourceTable::add(Source source) {
  if ((sources_.size() + 1) * 2 > buckets_.size()) grow();
  size_t mask = buckets_.size() - 1;
  size_t slot = hash_of(source) & mask;
  for (; buckets_[slot]; slot = (slot + 1) & mask)
    if (equal(sources_[buckets_[slot] - 1], source)) return SourceId(buckets_[slot] - 1);
  sources_.push_back(source);
  buckets_[slot] = static_cast<uint32_t>(sources_.size());
  return SourceId(sources_.size() - 1);
}

const char* source_kind_name(SourceKind kind) {
  static const char* const kNames[] = {
#define SOURCE(kind, operands, text) #kind,
#include "graph/source.def"
#undef SOURCE
  };
  return kNames[static_cast<size_t>(kind)];
}

const char* source_text_pattern(SourceKind kind) {
  static const char* const kTexts[] = {
#define SOURCE(kind, operands, text) text,
#include "graph/source.def"
#undef SOURCE
  };
  return kTexts[static_cast<size_t>(kind)];
}

}  // namespace framejit::graph
