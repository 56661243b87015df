// Enters code in the middle: the rest of a frame whose twin does not know an exit, and callees that were inlined and
// broke.
#pragma once

#include "runtime/call/thread_state.h"

namespace framejit::runtime {

// The rest of the frame in `view`, from where `transfer` says, as an object that its twin returns in the place of a
// value. Null with a Python error.
Ref rest_of_frame(const FrameView& view, Transfer transfer);

// What a twin or resume code returned -> what the function returns: runs the rest of its frame, if that is what came.
// Steals `returned`, which may be null.
PyObject* finish_frame(PyObject* returned);

// Runs the innermost frames of a break, from rest.next_frame on; gives the result of the call that waits for it.
PyObject* run_continuation(Continuation rest);

}  // namespace framejit::runtime
