// CPython 3.8: the evaluator takes no thread state, and lives in a field of the interpreter's internal struct.
#define Py_BUILD_CORE 1
#include <Python.h>
#include <frameobject.h>
#include <internal/pycore_pystate.h>

#include "eval_frame/abi.h"
#include "eval_frame/hook.h"

static int frame_lasti(const PyFrameObject* frame) { return frame->f_lasti; }
static void set_frame_lasti(PyFrameObject* frame, int bytes) { frame->f_lasti = bytes; }
static int frame_is_executing(const PyFrameObject* frame) { return frame->f_executing; }

#include "eval_frame/heap_frame.inc.h"

int framejit_is_traced(PyThreadState* tstate) { return tstate->use_tracing || tstate->tracing; }

PyInterpreterState* fj_abi_interpreter(PyThreadState* tstate) { return tstate->interp; }

int framejit_is_collecting(PyThreadState* tstate) { return _PyRuntime.gc.collecting; }

static _PyFrameEvalFunction get_evaluator(PyInterpreterState* interp) { return interp->eval_frame; }
static void set_evaluator(PyInterpreterState* interp, _PyFrameEvalFunction evaluator) {
  interp->eval_frame = evaluator;
}

#define FJ_EVAL_PARAMS PyFrameObject *frame, int throw_flag
#define FJ_EVAL_ARGS frame, throw_flag
#define FJ_EVAL_TSTATE _PyThreadState_UncheckedGet()
#define FJ_MAX_NESTING 0
#include "eval_frame/evaluator.inc.h"
#include "eval_frame/no_key_kinds.inc.h"
#include "eval_frame/no_watchers.inc.h"
