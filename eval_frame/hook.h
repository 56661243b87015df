// The PEP 523 frame hook and the per-code state. This room knows nothing of tracing: it calls ONE injected handler.
//
// The hook is installed in the interpreter while at least one thread is inside framejit_hook_enter/leave, and not a
// moment longer: an installed hook makes each Python call 1.1 to 2.4 times slower. A thread that has not entered, or
// that runs the handler, or is traced, profiled or monitored, goes straight to the evaluator that was there before; so
// do generators, coroutines and frames resumed with an exception.
//
// All functions need the GIL. Only one interpreter per process can have the hook; in any other, enter does nothing.
#pragma once

#include "eval_frame/frame_view.h"

#ifdef __cplusplus
extern "C" {
#endif

// Returns 0: run the frame normally. Returns 1: handled; *result is a new reference, or NULL with an exception set.
// Returns 2: run it normally with the hook off for all that it calls. The frame's slots must stay as they are unless
// the answer is 1. While the handler runs, the hook is off for this thread; replacement code that wants it on calls
// framejit_hook_enter again.
typedef int (*FramejitFrameHandler)(FramejitFrameView* view, PyObject** result, void* ctx);

typedef struct {
  FramejitFrameHandler handle;
  void* ctx;
} FramejitHookHandler;

// One handler per process; returns the one that was there, for who borrows the hook. Only while no thread is inside.
FramejitHookHandler framejit_hook_set_handler(FramejitHookHandler handler);

// Turns the hook on for this thread; nests. Give leave what enter returned, in reverse order, also when an exception
// passes.
int framejit_hook_enter(PyThreadState* tstate);
void framejit_hook_leave(PyThreadState* tstate, int token);

// Turns the hook on for all threads, those that start later too, for good.
void framejit_hook_enter_everywhere(PyThreadState* tstate);

// Whether frames of this thread are handed to the handler now.
int framejit_hook_active(void);

// Whether the interpreter has our evaluator installed now (for tests and stats).
int framejit_hook_installed(void);

// Turns the hook off for this thread (it stays installed for others and for the callers); same bracket rule.
int framejit_hook_pause(void);
void framejit_hook_resume(int token);

// Whether sys.settrace, sys.setprofile or (3.12+) sys.monitoring watches this thread now: then nothing may be skipped
// and the runtime must run eagerly.
int framejit_is_traced(PyThreadState* tstate);
// The same for events that a 3.12+ tool asked of this code object alone. 0 before 3.12.
int framejit_code_is_monitored(const PyCodeObject* code);

// Counts a run of the code that others stand in for: by regenerated code, or followed from a caller. 1: not counted,
// for it is the run in which the interpreter specialises the code's instructions, which dis shows, and it has to run
// the code itself. 3.11 counts runs per code object (co_warmup, PEP 659); other versions keep their counts in
// instructions.
int framejit_code_warms_up(PyCodeObject* code);

// Whether the cyclic collector is at work, and so runs finalizers and callbacks.
int framejit_is_collecting(PyThreadState* tstate);

// How many more nested Python calls the recursion limit allows here; a frame that has not begun is not counted.
int framejit_recursion_left(PyThreadState* tstate);

// Per-code state, in co_extra: NULL if none was set. Freed with the code object, or when it is replaced. `set` returns
// 0, or -1 with an exception set (then `free` was not called).
void* framejit_code_state_get(PyCodeObject* code);
int framejit_code_state_set(PyCodeObject* code, void* state, void (*free)(void*));

// Whether anyone else has put data into co_extra of this code object: that they free it shows when the object ends.
int framejit_code_has_data_of_others(PyCodeObject* code);

#ifdef __cplusplus
}  // extern "C"

namespace framejit {

// Hook on in a scope.
class HookScope {
 public:
  explicit HookScope(PyThreadState* tstate) : tstate_(tstate), token_(framejit_hook_enter(tstate)) {}
  ~HookScope() { framejit_hook_leave(tstate_, token_); }
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;

 private:
  PyThreadState* tstate_;
  int token_;
};

// Hook off in a scope.
class HookPauseScope {
 public:
  HookPauseScope() : token_(framejit_hook_pause()) {}
  ~HookPauseScope() { framejit_hook_resume(token_); }
  HookPauseScope(const HookPauseScope&) = delete;
  HookPauseScope& operator=(const HookPauseScope&) = delete;

 private:
  int token_;
};

}  // namespace framejit
#endif
