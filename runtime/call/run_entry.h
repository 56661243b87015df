// The steps that every way into a captured segment takes: find or make the entry, run its graph, apply its effects.
#pragma once

#include <functional>
#include <memory>

#include "runtime/cache/capture_driver.h"
#include "runtime/cache/code_cache.h"

namespace framejit::runtime {

struct FoundEntry {
  std::shared_ptr<CompiledEntry> entry;  // its guards hold and its registers are filled; null: run eagerly
  bool error = false;                    // a Python error is set
  TraceStop stop;                        // after a capture: why it broke, or why there is no entry
  bool captured = false;                 // just now
};

// True while nothing may be captured or skipped on this thread: framejit is off, a capture is running, or a debugger or
// profiler watches.
bool must_run_eagerly(PyThreadState* tstate);

// The segment runs eagerly this time, for a reason that tells nothing of it: another call may capture.
FoundEntry refuse(const CodeCache& cache, Segment& segment, StopReason reason, std::string why);

FoundEntry find_or_capture(CodeCache& cache, Segment& segment, const FrameInputs& inputs, OwnedValues& owned,
                           const std::function<SegmentStart()>& start);

// Runs the graph and applies the effects. False with a Python error, or without one: an operator failed and left no
// trace. Then the code itself must run, which may catch the error, and does what it does before it.
bool run_and_apply(CompiledEntry& entry, Replay& replay);

// The whole of a segment that returns: graph, effects, value. Null as above.
PyObject* run_to_return(CompiledEntry& entry);

}  // namespace framejit::runtime
