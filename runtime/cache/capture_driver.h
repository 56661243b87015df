// From a miss to an entry: runs the tracer on a segment, compiles what it captured, and files it.
#pragma once

#include <string>

#include "runtime/cache/code_cache.h"
#include "tracer/tracer.h"

namespace framejit::runtime {

struct CaptureOutcome {
  std::shared_ptr<CompiledEntry> entry;  // null: the segment runs eagerly
  TraceStop stop;                        // why it ends in a break, or why there is none
  bool python_error = false;             // an exception is set: strict mode, or a user's back end failed
};

// The frame is as `start` says. Never leaves a Python error but with `python_error`; never throws.
CaptureOutcome capture(CodeCache& cache, Segment& segment, const SegmentStart& start);

// Whether this thread is capturing now: then nothing else may be captured, and all runs eagerly.
bool is_capturing();

}  // namespace framejit::runtime
