// Enters code in the middle: the rest of a frame whose twin does not know an exit, and callees that were inlined and
// broke.
#pragma once

#include "runtime/call/thread_state.h"

namespace framejit::runtime {

// Goes on in a new frame where `transfer` says, for the frame in `view`. Returns what the function returns.
PyObject* resume_frame(const FrameView& view, Transfer transfer);

// Runs the innermost frames of a break, from rest.next_frame on; gives the result of the call that waits for it.
PyObject* run_continuation(Continuation rest);

}  // namespace framejit::runtime
