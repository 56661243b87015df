// How the recorder ends a trace: a private Python exception that is no `Exception`, so that handlers in the code that
// is being simulated let it pass.
#pragma once

#include <string>
#include <type_traits>

typedef struct _object PyObject;

namespace framejit::torchlib {

// The exception's type, or null with a Python error. Borrowed.
PyObject* trace_stop_type();

// Raises it. Takes the GIL if this thread does not hold it. `reason` is a name of tracer/stop_reasons.def.
[[noreturn]] void stop_trace(const char* reason, const std::string& detail);

// If that exception is set, or LibTorch's own of a tensor without memory: clears it and fills in both.
bool take_trace_stop(std::string* reason, std::string* detail);

// Runs f; a C++ exception becomes the Python error that torch would raise for it, and the result false.
bool translate_errors(bool (*f)(void*), void* context);
template <class F>
bool with_translated_errors(F&& f) {
  using Function = std::remove_reference_t<F>;
  return translate_errors([](void* context) { return (*static_cast<Function*>(context))(); }, &f);
}

}  // namespace framejit::torchlib
