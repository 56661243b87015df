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

SourceId SourceTable::add(Source source) {
  const auto [row, fresh] = index_.add(hash_of(source), [&](uint32_t at) { return equal(sources_[at], source); });
  if (fresh) sources_.push_back(source);
  return SourceId(row);
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
