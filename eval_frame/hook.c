#include "eval_frame/hook.h"

#include "eval_frame/abi.h"

_Thread_local FjThread fj_thread;
int fj_everywhere;

// Guarded by the GIL.
static FramejitHookHandler handler;
static int threads_inside;
static PyInterpreterState* owner;

FramejitHookHandler framejit_hook_set_handler(FramejitHookHandler new_handler) {
  const FramejitHookHandler old = handler;
  handler = new_handler;
  return old;
}

int framejit_hook_enter(PyThreadState* tstate) {
  const int token = fj_thread.active;
  PyInterpreterState* interp = fj_abi_interpreter(tstate);
  if (threads_inside > 0 && interp != owner) return token | 2;
  if (fj_thread.entered++ == 0 && threads_inside++ == 0) {
    owner = interp;
    fj_abi_install(interp);
  }
  fj_thread.active = 1;
  return token;
}

void framejit_hook_leave(PyThreadState* tstate, int token) {
  if (token & 2) return;
  fj_thread.active = token;
  if (--fj_thread.entered == 0 && --threads_inside == 0) fj_abi_uninstall(owner);
}

void framejit_hook_enter_everywhere(PyThreadState* tstate) {
  framejit_hook_enter(tstate);
  fj_everywhere = 1;
}

int framejit_hook_active(void) { return fj_thread.active; }
int framejit_hook_installed(void) { return threads_inside > 0; }

int framejit_hook_pause(void) {
  const int token = fj_thread.active;
  fj_thread.active = 0;
  return token;
}

void framejit_hook_resume(int token) { fj_thread.active = token; }

int fj_hook_dispatch(FramejitFrameView* view, PyObject** result) {
  if (handler.handle == NULL) return 0;
  const int token = framejit_hook_pause();
  const int answer = handler.handle(view, result, handler.ctx);
  framejit_hook_resume(token);
  return answer;
}
