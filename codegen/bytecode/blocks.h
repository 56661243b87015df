// Block stacks of 3.8 to 3.10, compared.
#pragma once

#include <algorithm>
#include <vector>

#include "bytecode/decoded.h"

namespace framejit::codegen {

inline bool same_block(const bytecode::Block& a, const bytecode::Block& b) {
  return a.kind == b.kind && a.handler == b.handler && a.level == b.level;
}

// How many blocks two block stacks share, from the outermost.
inline size_t common_blocks(const std::vector<bytecode::Block>& a, const std::vector<bytecode::Block>& b) {
  const size_t limit = std::min(a.size(), b.size());
  size_t n = 0;
  while (n < limit && same_block(a[n], b[n])) ++n;
  return n;
}

}  // namespace framejit::codegen
