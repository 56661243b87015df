// Code that looks at what a capture changes although the program computes the same: its own frame, and what the
// interpreter counts of objects.
#pragma once

#include <optional>

#include "bytecode/decoded_code.h"
#include "tracer/trace_stop.h"

namespace framejit {

// Locals that nothing reads any more are seen too. super() without arguments looks at the first local.
bool sees_locals(const bytecode::DecodedCode& code);

// Why nothing may be captured from `at` on. Code may keep its frame object, which is a view of the frame that goes on:
// all that follows has to run in that frame. References, sizes and watchers of objects are others as soon as any of it
// was captured.
std::optional<TraceStop> why_not_capturable(const bytecode::DecodedCode& code, bytecode::InstrIndex at, bool at_start);

// Code may find its own frame in a traceback and look at its code, which changes where another frame goes on.
bool looks_at_traced_frames(const bytecode::DecodedCode& code);

// Such code finds the objects of captures made while it runs, by any callee.
bool walks_the_collectors_objects(const bytecode::DecodedCode& code);

}  // namespace framejit
