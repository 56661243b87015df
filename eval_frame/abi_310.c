// CPython 3.10: f_lasti counts instructions, and use_tracing moved to the C frame.
#define Py_BUILD_CORE 1
#include <Python.h>
#include <frameobject.h>
#include <internal/pycore_interp.h>

#include "eval_frame/abi.h"
#include "eval_frame/hook.h"

static int frame_lasti(const PyFrameObject* frame) { return frame->f_lasti * 2; }
static void set_frame_lasti(PyFrameObject* frame, int bytes) { frame->f_lasti = bytes / 2; }
static int frame_is_executing(const PyFrameObject* frame) { return frame->f_state <= FRAME_EXECUTING; }

#include "eval_frame/heap_frame.inc.h"

int framejit_is_traced(PyThreadState* tstate) { return tstate->cframe->use_tracing || tstate->tracing; }

#include "eval_frame/evaluator_api.inc.h"

#define FJ_MAX_NESTING 0
#include "eval_frame/evaluator.inc.h"
#include "eval_frame/no_key_kinds.inc.h"
#include "eval_frame/no_watchers.inc.h"
