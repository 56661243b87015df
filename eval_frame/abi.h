// What hook.c (one for all versions) and abi_3x.c (one per version) know of each other. Nobody else includes this.
#pragma once

#include "eval_frame/frame_view.h"

// Per-thread part of the hook.
typedef struct FjThread {
  int entered;  // brackets open on this thread
  int active;   // frames go to the handler
  int nesting;  // our evaluator's activations on the C stack
} FjThread;

extern _Thread_local FjThread fj_thread;
extern int fj_everywhere;  // the hook is on in each thread that has not paused it

// hook.c: calls the handler with the hook off for this thread. Returns the handler's answer.
int fj_hook_dispatch(FramejitFrameView* view, PyObject** result);

// abi_3x.c
PyInterpreterState* fj_abi_interpreter(PyThreadState* tstate);
// Puts our evaluator in front of the one that is there. Idempotent.
void fj_abi_install(PyInterpreterState* interp);
// Puts the evaluator back that was there before, unless someone else has installed theirs over ours: then ours stays in
// their chain, idle.
void fj_abi_uninstall(PyInterpreterState* interp);
int fj_abi_installed(PyInterpreterState* interp);

// co_extra, under the version's own names.
Py_ssize_t fj_abi_request_code_extra(freefunc drop);
int fj_abi_get_code_extra(PyCodeObject* code, Py_ssize_t index, void** extra);
int fj_abi_set_code_extra(PyCodeObject* code, Py_ssize_t index, void* extra);
// How many have requested an index: so many fit into co_extra of a code object that is set next.
Py_ssize_t* fj_abi_code_extra_users(PyInterpreterState* interp);
