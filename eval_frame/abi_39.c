// CPython 3.9.
#define Py_BUILD_CORE 1
#include <Python.h>
#include <frameobject.h>
#include <internal/pycore_interp.h>

#include "eval_frame/abi.h"
#include "eval_frame/hook.h"

static int frame_lasti(const PyFrameObject* frame) { return frame->f_lasti; }
static void set_frame_lasti(PyFrameObject* frame, int bytes) { frame->f_lasti = bytes; }
static int frame_is_executing(const PyFrameObject* frame) { return frame->f_executing; }

#include "eval_frame/heap_frame.inc.h"

int framejit_is_traced(PyThreadState* tstate) { return tstate->use_tracing || tstate->tracing; }

#include "eval_frame/evaluator_api.inc.h"

#define FJ_MAX_NESTING 0
#include "eval_frame/evaluator.inc.h"
#include "eval_frame/no_key_kinds.inc.h"
#include "eval_frame/no_watchers.inc.h"
