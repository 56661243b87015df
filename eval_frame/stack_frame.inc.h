// 3.11 to 3.13: a frame is a _PyInterpreterFrame on the thread's data stack. Before including this, abi_3x.c defines
// frame_code(frame), frame_function(frame), frame_lasti(frame), set_frame_code(frame, code, first unit of its
// instruction), which takes over the reference to `code`, and innermost_frame(tstate).
#include "eval_frame/ended_frame.h"

static void fill_view(Frame* frame, FramejitFrameView* view) {
  PyFunctionObject* function = frame_function(frame);
  PyCodeObject* code = frame_code(frame);
  view->code = code;
  view->globals = frame->f_globals;
  view->builtins = frame->f_builtins;
  view->function = (PyObject*)function;
  view->closure = function->func_closure;
  view->localsplus = frame->localsplus;
  view->stack = frame->localsplus + code->co_nlocalsplus;
  view->nlocalsplus = code->co_nlocalsplus;
  view->lasti = frame_lasti(frame);
  view->blocks = 0;
  view->frame = frame;
}

int framejit_current_frame(FramejitFrameView* view) {
  Frame* frame = innermost_frame(PyThreadState_Get());
  if (frame == NULL) return -1;
  fill_view(frame, view);
  return 0;
}

PyObject* framejit_frame_object(const FramejitFrameView* view) { return (PyObject*)((Frame*)view->frame)->frame_obj; }

PyObject* framejit_frame_argument(const FramejitFrameView* view, int index) { return view->localsplus[index]; }

int framejit_frame_has_ended(PyObject* object) {
  return ((PyFrameObject*)object)->f_frame->owner == FRAME_OWNED_BY_FRAME_OBJECT;
}
PyObject* framejit_frame_back(PyObject* object) { return (PyObject*)((PyFrameObject*)object)->f_back; }
void framejit_frame_set_back(PyObject* object, PyObject* back) {
  PyFrameObject* was = ((PyFrameObject*)object)->f_back;
  Py_INCREF(back);
  ((PyFrameObject*)object)->f_back = (PyFrameObject*)back;
  Py_XDECREF(was);
}
void framejit_frame_view(PyObject* object, FramejitFrameView* view) {
  fill_view(((PyFrameObject*)object)->f_frame, view);
}
void framejit_frame_become(PyObject* object, PyCodeObject* code, int lasti) {
  Frame* frame = ((PyFrameObject*)object)->f_frame;
  PyCodeObject* was = frame_code(frame);
  Py_INCREF(code);
  set_frame_code(frame, code, _PyCode_CODE(code) + lasti / (int)sizeof(_Py_CODEUNIT));
  Py_DECREF(was);
}
