// Sources: how the runtime reads a value again at the start of a call. Data only; evaluated in runtime/.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/row_index.h"
#include "graph/ids.h"

namespace framejit::graph {

using SourceId = Id<struct SourceTag>;

enum class SourceKind : uint8_t {
#define SOURCE(kind, operands, text) k##kind,
#include "graph/source.def"
#undef SOURCE
};

struct Source {
  SourceKind kind;
  uint32_t index = 0;
  SourceId base;
  ConstId object;
};

// Hash-consed: equal sources have equal ids, and a base always has a smaller id than what is read through it.
class SourceTable {
 public:
  SourceId add(Source source);
  const Source& at(SourceId id) const { return sources_[id.index()]; }
  size_t size() const { return sources_.size(); }

  SourceId local(uint32_t slot) { return add({SourceKind::kLocal, slot, {}, {}}); }
  SourceId stack(uint32_t slot) { return add({SourceKind::kStack, slot, {}, {}}); }
  SourceId constant(ConstId object) { return add({SourceKind::kConst, 0, {}, object}); }
  SourceId read(SourceKind kind, SourceId base) { return add({kind, 0, base, {}}); }
  SourceId item(SourceKind kind, SourceId base, uint32_t index) { return add({kind, index, base, {}}); }
  SourceId keyed(SourceKind kind, SourceId base, ConstId key) { return add({kind, 0, base, key}); }

 private:
  std::vector<Source> sources_;
  RowIndex index_;
};

const char* source_kind_name(SourceKind kind);
const char* source_text_pattern(SourceKind kind);

}  // namespace framejit::graph
