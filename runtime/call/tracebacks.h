// Tracebacks of a frame whose rest runs in another one.
#pragma once

#include "runtime/call/thread_state.h"

namespace framejit::runtime {

// The frame that runs now, if a traceback may name it that `transfer` carries away; null: none does.
Ref frame_in_tracebacks(const Transfer& transfer);

// Those of the exceptions that `transfer` has brought name the frame that runs now, which has the locals, in the place
// of the one that was left.
void move_tracebacks(const Transfer& transfer);

// To be called when a twin or resume code has ended with `result`, null for the present exception: where nothing but
// tracebacks within reach name its frame, the frame and they show the function's own code, and the instruction in it.
void show_own_code(PyObject* result);

}  // namespace framejit::runtime
