// How control leaves a handler of the simulator other than by its result. Both are C++ exceptions inside this room
// only: a stop or a Python exception unwinds through handlers, inlined frames and re-entrant calls alike. They never
// cross a C function of the interpreter: tracer/proxies.cpp turns them into Python errors and back. At the room's
// boundary (capture_segment) they are a Result.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "graph/ids.h"
#include "tracer/trace_stop.h"

namespace framejit {

// An instruction at which the capture can end: counted in simulated instructions from the start of the segment.
struct BreakPoint {
  uint64_t count = 0;  // 0: none
  bool valid() const { return count != 0; }
};

// A Python error is set: a simulated exception on its way to a handler.
struct PythonRaised {
  BreakPoint origin;  // where the capture could end if nothing in it catches the exception
};

// The capture ends.
struct StopTrace {
  TraceStop stop;
  BreakPoint point;
  RefusedNode refused = {};
  std::string import = {};                // a module of torch's own, which is imported before the next pass
  std::optional<size_t> stack_slot = {};  // what stands there at the start is set aside in the next pass
};

}  // namespace framejit
