// Frame objects whose frames have ended, as tracebacks keep them. All functions need the GIL.
#pragma once

#include "eval_frame/frame_view.h"

#ifdef __cplusplus
extern "C" {
#endif

// Whether nothing runs in it any more. The functions below are for such frames.
int framejit_frame_has_ended(PyObject* frame);
// The frame that called it, if this one holds it. Borrowed, or NULL.
PyObject* framejit_frame_back(PyObject* frame);
// Another one in the place of that.
void framejit_frame_set_back(PyObject* frame, PyObject* back);
// What is left in it. The view's stack, function and blocks mean nothing.
void framejit_frame_view(PyObject* frame, FramejitFrameView* view);
// Makes it one of `code`, which has the same slots in localsplus, that ended at byte offset `lasti`.
void framejit_frame_become(PyObject* frame, PyCodeObject* code, int lasti);

#ifdef __cplusplus
}  // extern "C"
#endif
