// CPython 3.12: the evaluator clears and pops the frame that it is given, so a handled frame must be disposed of here;
// tracing is done by monitoring; f_funcobj may be anything in frames that belong to the C stack.
#define Py_BUILD_CORE 1
#include <Python.h>
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#undef _PyGC_FINALIZED  // defined by two headers
#include <internal/pycore_interp.h>

#include "eval_frame/abi.h"
#include "eval_frame/hook.h"

typedef struct _PyInterpreterFrame Frame;

static PyCodeObject* frame_code(const Frame* frame) { return frame->f_code; }
static PyFunctionObject* frame_function(const Frame* frame) { return (PyFunctionObject*)frame->f_funcobj; }
static int frame_lasti(const Frame* frame) {
  return (int)((char*)frame->prev_instr - (char*)_PyCode_CODE(frame->f_code));
}
static void set_frame_code(Frame* frame, PyCodeObject* code, _Py_CODEUNIT* instr) {
  frame->f_code = code;
  frame->prev_instr = instr;
}
static Frame* innermost_frame(PyThreadState* tstate) {
  Frame* frame = tstate->cframe->current_frame;
  while (frame != NULL && frame->owner == FRAME_OWNED_BY_CSTACK) frame = frame->previous;
  return frame;
}

#include "eval_frame/stack_frame.inc.h"

// As the interpreter's own clear_thread_frame and _PyThreadState_PopFrame, which are not exported. A frame of which
// nothing has run has no frame object and is the top of the data stack.
static void pop_frame(PyThreadState* tstate, Frame* frame) {
  PyObject** base = (PyObject**)frame;
  _PyStackChunk* chunk = tstate->datastack_chunk;
  if (base != &chunk->data[0]) {
    tstate->datastack_top = base;
    return;
  }
  _PyStackChunk* previous = chunk->previous;  // the root chunk is never popped: its first slot stays unused
  tstate->datastack_top = &previous->data[previous->top];
  tstate->datastack_chunk = previous;
  tstate->datastack_limit = (PyObject**)((char*)previous + previous->size);
  PyObjectArenaAllocator arena;
  PyObject_GetArenaAllocator(&arena);
  arena.free(arena.ctx, chunk, chunk->size);
}

static void dispose(PyThreadState* tstate, Frame* frame) {
  const int count = frame->stacktop;
  --tstate->c_recursion_remaining;
  for (int i = 0; i < count; ++i) Py_XDECREF(frame->localsplus[i]);
  Py_XDECREF(frame->f_locals);
  Py_DECREF(frame->f_funcobj);
  Py_DECREF(frame->f_code);
  ++tstate->c_recursion_remaining;
  pop_frame(tstate, frame);
}

static int any_tool(const uint8_t* tools, size_t count, int ignored) {
  int seen = 0;
  for (size_t i = 0; i < count; ++i) seen |= tools[i];
  return (seen & ~ignored) != 0;
}

// settrace and setprofile are tools of the whole interpreter but belong to one thread.
enum { kTraceTools = 1 << 6 | 1 << 7 };

int framejit_recursion_left(PyThreadState* tstate) { return tstate->py_recursion_remaining; }

int framejit_is_traced(PyThreadState* tstate) {
  if (tstate->tracing || tstate->c_tracefunc != NULL || tstate->c_profilefunc != NULL) return 1;
  const _Py_GlobalMonitors* monitors = &tstate->interp->monitors;
  return any_tool(monitors->tools, sizeof(monitors->tools), kTraceTools);
}

int framejit_code_is_monitored(const PyCodeObject* code) {
  const _PyCoMonitoringData* data = code->_co_monitoring;
  return data != NULL && any_tool(data->local_monitors.tools, sizeof(data->local_monitors.tools), kTraceTools);
}

int framejit_code_warms_up(PyCodeObject* code) { return 0; }

Py_ssize_t fj_abi_request_code_extra(freefunc drop) { return PyUnstable_Eval_RequestCodeExtraIndex(drop); }
int fj_abi_get_code_extra(PyCodeObject* code, Py_ssize_t index, void** extra) {
  return PyUnstable_Code_GetExtra((PyObject*)code, index, extra);
}
int fj_abi_set_code_extra(PyCodeObject* code, Py_ssize_t index, void* extra) {
  return PyUnstable_Code_SetExtra((PyObject*)code, index, extra);
}

#include "eval_frame/evaluator_api.inc.h"

#define FJ_MAX_NESTING 200
#include "eval_frame/evaluator.inc.h"
#include "eval_frame/flagged_versions.inc.h"
#include "eval_frame/key_kinds.inc.h"
#include "eval_frame/watchers.inc.h"
