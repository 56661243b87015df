// The callables in a twin's constants: segment sites and what they hand over. The contract is in codegen/twin.h.
#pragma once

#include <memory>

#include "runtime/cache/code_cache.h"

namespace framejit::runtime {

struct TwinCallables {
  Ref take;
  Ref run_pending;
  Ref resume_slot;
};
const TwinCallables& twin_callables();

// The callable at a segment's site, in a twin that knows the first `exit_count` exits. Null with a Python error.
Ref make_site(std::shared_ptr<CodeCache> cache, Segment* segment, size_t exit_count);

}  // namespace framejit::runtime
