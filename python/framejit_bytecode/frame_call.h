// FrameCall(callback): a callable for the constants of twins. Called from a frame without arguments, it gives the
// callback that frame's view as a Frame, which is dead afterwards.
#pragma once

#include <Python.h>

namespace framejit {
// Adds FrameCall and the object NULL, which stands for an empty slot.
int add_frame_call(PyObject* module);
}  // namespace framejit
