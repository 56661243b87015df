// CPython 3.13: as 3.12, but a frame runs an "executable", instr_ptr is the instruction itself, the current frame hangs
// on the thread state, and popping is exported.
#define Py_BUILD_CORE 1
#include <Python.h>
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>

#include "eval_frame/abi.h"
#include "eval_frame/hook.h"

typedef struct _PyInterpreterFrame Frame;

static PyCodeObject* frame_code(const Frame* frame) { return (PyCodeObject*)frame->f_executable; }
static PyFunctionObject* frame_function(const Frame* frame) { return (PyFunctionObject*)frame->f_funcobj; }
static int frame_lasti(const Frame* frame) {
  return (int)((char*)frame->instr_ptr - (char*)_PyCode_CODE(frame_code(frame)));
}
static void set_frame_code(Frame* frame, PyCodeObject* code, _Py_CODEUNIT* instr) {
  frame->f_executable = (PyObject*)code;
  frame->instr_ptr = instr;
}
static Frame* innermost_frame(PyThreadState* tstate) {
  Frame* frame = tstate->current_frame;
  while (frame != NULL && frame->owner == FRAME_OWNED_BY_CSTACK) frame = frame->previous;
  return frame;
}

#include "eval_frame/stack_frame.inc.h"

// As the interpreter's own clear_thread_frame. A frame of which nothing has run has no frame object and is the top of
// the data stack.
static void dispose(PyThreadState* tstate, Frame* frame) {
  const int count = frame->stacktop;
  --tstate->c_recursion_remaining;
  for (int i = 0; i < count; ++i) Py_XDECREF(frame->localsplus[i]);
  Py_XDECREF(frame->f_locals);
  Py_DECREF(frame->f_funcobj);
  Py_DECREF(frame->f_executable);
  ++tstate->c_recursion_remaining;
  _PyThreadState_PopFrame(tstate, frame);
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

// The flag of a valid tag is no longer set: a tag that is not valid is 0.
uint64_t framejit_type_version(const PyTypeObject* type) { return type->tp_version_tag; }

int framejit_dict_tells(PyObject* dict) { return ((PyDictObject*)dict)->ma_values == NULL; }

// popitem() makes the dictionary's own table, and adding the item again puts it where it was: last. The keys are
// strings, as in each shared table, so no code of the program runs.
int framejit_dict_own_values(PyObject* dict) {
  if (framejit_dict_tells(dict)) return 1;
  if (!PyDict_CheckExact(dict) || PyDict_GET_SIZE(dict) == 0) return 0;
  PyObject* item = PyObject_CallMethod(dict, "popitem", NULL);
  if (item == NULL || PyDict_SetItem(dict, PyTuple_GET_ITEM(item, 0), PyTuple_GET_ITEM(item, 1)) < 0) PyErr_Clear();
  Py_XDECREF(item);
  return framejit_dict_tells(dict);
}

#include "eval_frame/key_kinds.inc.h"
#include "eval_frame/watchers.inc.h"
