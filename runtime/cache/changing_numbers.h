// Numbers that differ in each capture of a segment: a counter of calls, a learning rate, the variable of a loop.
#pragma once

#include "runtime/cache/code_cache.h"
#include "tracer/source_path.h"

namespace framejit::runtime {

// Where integers and floats are read of which the entries of a full segment have many values.
SourcePaths find_changing_numbers(const Segment& segment);

// Of a full segment: notes those for it and for its code, and removes the entries that look at them, so that a capture
// that leaves them to the interpreter takes their place.
void learn_changing_numbers(CodeCache& cache, Segment& segment);

// Those that were noted.
SourcePaths known_changing_numbers(const CodeCache& cache, const Segment& segment);

}  // namespace framejit::runtime
