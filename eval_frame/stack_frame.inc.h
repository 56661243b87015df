// 3.11 to 3.13: a frame is a _PyInterpreterFrame on the thread's data stack. Before including this, abi_3x.c defines
// frame_code(frame), frame_function(frame), frame_lasti(frame) and innermost_frame(tstate).

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

PyObject* framejit_frame_argument(const FramejitFrameView* view, int index) { return view->localsplus[index]; }
