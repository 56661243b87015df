// Numbers that differ in each capture of a segment: a counter of calls, a learning rate, the variable of a loop.
#pragma once

#include "runtime/cache/code_cache.h"
#include "tracer/source_path.h"

namespace framejit::runtime {

// Where integers and floats are read of which the entries of a full segment have many values; on the operand stack, and
// where the segment begins behind an instruction that was left to the interpreter for such a number or for a tensor's
// data, some values will do: what is made of these changes too, and goes through one such segment after the other.
SourcePaths find_changing_numbers(const Segment& segment);

// Whether the segment has entries enough to tell.
bool may_learn_changing_numbers(const Segment& segment);

// Notes them for the segment and for its code, and removes the entries that look at them, so that a capture that leaves
// them to the interpreter takes their place.
void learn_changing_numbers(CodeCache& cache, Segment& segment);

// Those that were noted.
SourcePaths known_changing_numbers(const CodeCache& cache, const Segment& segment);

}  // namespace framejit::runtime
