// What is known of the numbers that a code object, or one of its segments, reads from one place and finds another each
// time. See changing_numbers.h.
#pragma once

#include "tracer/source_path.h"

namespace framejit::runtime {

struct ChangingPaths {
  SourcePaths left;     // what looks at them is left to the interpreter
  SourcePaths inputs;   // floats that graphs take as inputs
  SourcePaths refused;  // floats that are guarded by value all the same: a capture came less far with them as inputs

  void clear() { *this = {}; }
};

}  // namespace framejit::runtime
