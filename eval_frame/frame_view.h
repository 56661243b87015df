// What the rest of framejit may know of a running Python frame: a plain C view of it. No Python frame object is ever
// made.
//
// Validity. A view is a set of borrowed pointers into a live frame. It is valid
//  - while the C function that was called from that frame runs (framejit_current_frame), or
//  - while the hook's handler runs (the view handed to it);
// not longer. In both cases locals and operand-stack slots are in memory and may be read AND written: the interpreter
// holds only the stack pointer in a register. Writing a slot: keep the old value, store the new reference, then drop
// the old one (its finaliser may look at the frame); framejit_slot_set does that.
//
// Layout of localsplus, the same order as the code object's own: 3.8 to 3.10: co_varnames, then one slot per cell
// variable, then one per free variable (an argument that is also a cell has both slots). 3.11+: co_localsplusnames,
// where an argument that is a cell has one slot.
#pragma once

#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct FramejitFrameView {
  PyCodeObject* code;
  PyObject* globals;
  PyObject* builtins;
  PyObject* function;     // 3.11+: the function object; NULL before
  PyObject* closure;      // 3.11+: the function's closure tuple, or NULL. Before 3.11 NULL: the cells are in localsplus
  PyObject** localsplus;  // locals, cells, frees
  PyObject** stack;       // operand stack: slot j is stack[j]
  int nlocalsplus;
  int lasti;    // byte offset of the instruction being run; negative before the first one
  int blocks;   // 3.8 to 3.10: entries of the block stack; 0 from 3.11 on
  void* frame;  // the version's own frame
} FramejitFrameView;

// The innermost Python frame of this thread: the caller, for a C function. Returns 0, or -1 (no exception set) if there
// is none. A few loads; made for the hot path.
int framejit_current_frame(FramejitFrameView* view);

// The frame's Python object, borrowed, which the frame holds once; NULL if nothing has asked for it yet (3.11+).
PyObject* framejit_frame_object(const FramejitFrameView* view);

// In a frame that the hook hands over, nothing has run yet: on 3.11+ cells do not exist yet and the closure has not
// been copied; before 3.11 both have been done and an argument that is a cell lies in its cell only. This gives the
// value of argument `index` (order: positional, keyword-only, *args, **kwargs) whatever the version; borrowed, never
// NULL there.
PyObject* framejit_frame_argument(const FramejitFrameView* view, int index);

// The number of slots that framejit_frame_argument knows.
static inline int framejit_code_argument_count(const PyCodeObject* code) {
  return code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0) +
         ((code->co_flags & CO_VARKEYWORDS) != 0);
}

// Steals `value` (NULL empties the slot).
static inline void framejit_slot_set(PyObject** slot, PyObject* value) {
  PyObject* old = *slot;
  *slot = value;
  Py_XDECREF(old);
}

#ifdef __cplusplus
}  // extern "C"

namespace framejit {
using FrameView = ::FramejitFrameView;
}
#endif
