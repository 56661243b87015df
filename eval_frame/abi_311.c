// CPython 3.11: frames move to the thread's data stack; the caller of the evaluator clears and pops them.
#define Py_BUILD_CORE 1
#include <Python.h>
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>

#include "eval_frame/abi.h"
#include "eval_frame/hook.h"

typedef struct _PyInterpreterFrame Frame;

static PyCodeObject* frame_code(const Frame* frame) { return frame->f_code; }
static PyFunctionObject* frame_function(const Frame* frame) { return frame->f_func; }
static int frame_lasti(const Frame* frame) {
  return (int)((char*)frame->prev_instr - (char*)_PyCode_CODE(frame->f_code));
}
static void set_frame_code(Frame* frame, PyCodeObject* code, _Py_CODEUNIT* instr) {
  frame->f_code = code;
  frame->prev_instr = instr;
}
static Frame* innermost_frame(PyThreadState* tstate) { return tstate->cframe->current_frame; }

#include "eval_frame/stack_frame.inc.h"

static void dispose(PyThreadState* tstate, Frame* frame) {}

int framejit_is_traced(PyThreadState* tstate) { return tstate->cframe->use_tracing || tstate->tracing; }
int framejit_code_is_monitored(const PyCodeObject* code) { return 0; }
int framejit_code_warms_up(PyCodeObject* code) {
  if (code->co_warmup == -1) return 1;
  if (code->co_warmup < 0) ++code->co_warmup;
  return 0;
}
int framejit_recursion_left(PyThreadState* tstate) { return tstate->recursion_remaining; }

#include "eval_frame/evaluator_api.inc.h"
#include "eval_frame/old_code_extra.inc.h"

#define FJ_MAX_NESTING 200
#include "eval_frame/evaluator.inc.h"
#include "eval_frame/key_kinds.inc.h"
#include "eval_frame/no_watchers.inc.h"
