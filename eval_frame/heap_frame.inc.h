// 3.8 to 3.10: a frame is a PyFrameObject on the heap, which the caller of the evaluator clears. Before including this,
// abi_3x.c includes frameobject.h and defines frame_lasti(frame), set_frame_lasti(frame, bytes) and
// frame_is_executing(frame).
#include "eval_frame/ended_frame.h"

typedef PyFrameObject Frame;

int framejit_recursion_left(PyThreadState* tstate) { return Py_GetRecursionLimit() - tstate->recursion_depth; }

static PyCodeObject* frame_code(const Frame* frame) { return frame->f_code; }

static void fill_view(Frame* frame, FramejitFrameView* view) {
  view->code = frame->f_code;
  view->globals = frame->f_globals;
  view->builtins = frame->f_builtins;
  view->function = NULL;
  view->closure = NULL;
  view->localsplus = frame->f_localsplus;
  view->stack = frame->f_valuestack;
  view->nlocalsplus = (int)(frame->f_valuestack - frame->f_localsplus);
  view->lasti = frame_lasti(frame);
  view->blocks = frame->f_iblock;
  view->frame = frame;
}

static void dispose(PyThreadState* tstate, Frame* frame) {}

int framejit_current_frame(FramejitFrameView* view) {
  Frame* frame = _PyThreadState_UncheckedGet()->frame;
  if (frame == NULL) return -1;
  fill_view(frame, view);
  return 0;
}

PyObject* framejit_frame_object(const FramejitFrameView* view) { return (PyObject*)view->frame; }

PyObject* framejit_frame_argument(const FramejitFrameView* view, int index) {
  PyObject* value = view->localsplus[index];
  const Py_ssize_t* cell_to_argument = view->code->co_cell2arg;
  if (value != NULL || cell_to_argument == NULL) return value;
  const Py_ssize_t ncells = PyTuple_GET_SIZE(view->code->co_cellvars);
  for (Py_ssize_t i = 0; i < ncells; ++i)
    if (cell_to_argument[i] == index) return PyCell_GET(view->localsplus[view->code->co_nlocals + i]);
  return NULL;
}

int framejit_frame_has_ended(PyObject* object) { return !frame_is_executing((Frame*)object); }
PyObject* framejit_frame_back(PyObject* object) { return (PyObject*)((Frame*)object)->f_back; }
void framejit_frame_set_back(PyObject* object, PyObject* back) {
  PyFrameObject* was = ((Frame*)object)->f_back;
  Py_INCREF(back);
  ((Frame*)object)->f_back = (Frame*)back;
  Py_XDECREF(was);
}
void framejit_frame_view(PyObject* object, FramejitFrameView* view) { fill_view((Frame*)object, view); }
void framejit_frame_become(PyObject* object, PyCodeObject* code, int lasti) {
  Frame* frame = (Frame*)object;
  PyCodeObject* was = frame->f_code;
  Py_INCREF(code);
  frame->f_code = code;
  set_frame_lasti(frame, lasti);
  Py_DECREF(was);
}

int framejit_code_is_monitored(const PyCodeObject* code) { return 0; }
int framejit_code_warms_up(PyCodeObject* code) { return 0; }

#include "eval_frame/old_code_extra.inc.h"
