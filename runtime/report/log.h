// What the runtime tells the user through Python's logging, each thing once.
#pragma once

#include <string>

#include "runtime/cache/code_cache.h"

namespace framejit::runtime {

// Clears the Python error and returns it as text.
std::string take_python_error();

// An internal failure before anything visible happened: the caller counts it and runs eagerly. Under FRAMEJIT_STRICT it
// raises framejit.InternalError and returns true; else it logs each distinct message once.
bool report_internal_error(const std::string& what);
// An internal failure past the point of no return: raises. An error that is set already stays.
void raise_internal_error(const std::string& what);

// For Engine::on_capture: the guard that failed last of the newest entry, or ''. May run __repr__.
std::string describe_miss(CodeCache& cache, Segment& segment, const FrameInputs& inputs);
// Tells Engine::on_capture of a new entry, or, without one, that the segment runs eagerly. No Python error is left.
void report_capture(CodeCache& cache, Segment& segment, const CompiledEntry* entry, const std::string& missed);

// The segment has as many entries as it may have and none fits.
void report_too_many_entries(CodeCache& cache, Segment& segment, const FrameInputs& inputs);

// The exception type that framejit raises for its own failures; RuntimeError until it is set.
void set_internal_error_type(PyObject* type);

}  // namespace framejit::runtime
