// Guards as data: flat rows over sources. Evaluated in runtime/, rendered in words only when one fails.
#pragma once

#include <cstdint>
#include <vector>

#include "base/row_index.h"
#include "graph/source.h"

namespace framejit::graph {

enum class GuardKind : uint8_t {
#define GUARD(kind, operands, text) k##kind,
#include "graph/guard.def"
#undef GUARD
};

struct Guard {
  GuardKind kind;
  SourceId source;
  ConstId object;
  SourceId other;
  uint64_t number = 0;
};

// In the order of capture, so that a guard's source is safe to read once all guards before it hold. No duplicates.
class GuardList {
 public:
  // Returns false if an equal guard is in the list.
  bool add(const Guard& guard);
  const std::vector<Guard>& rows() const { return rows_; }

 private:
  std::vector<Guard> rows_;
  RowIndex index_;
};

const char* guard_kind_name(GuardKind kind);
const char* guard_text_pattern(GuardKind kind);

}  // namespace framejit::graph
