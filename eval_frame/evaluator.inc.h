// The evaluator that the hook installs, written once over a few words which each abi_3x.c defines before it includes
// this:
//   FJ_EVAL_PARAMS, FJ_EVAL_ARGS   the evaluator's parameter and argument list; names: frame, throw_flag (and tstate)
//   FJ_EVAL_TSTATE                 the thread state inside the evaluator
//   FJ_MAX_NESTING                 0, or how many nested Python calls may use the C stack (see relieve below)
//   Frame                          the version's frame type
//   frame_code(frame), fill_view(frame, view), dispose(tstate, frame), get_evaluator(interp), set_evaluator(interp, fn)

static _PyFrameEvalFunction previous_evaluator;
static int buried;  // someone installed over us and has not left: they chain to us

static PyObject* evaluate(FJ_EVAL_PARAMS);

static int is_plain_function(const PyCodeObject* code) {
  return (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) == 0;
}

#if FJ_MAX_NESTING
// From 3.11 on, Python-to-Python calls use no C stack, but with any evaluator installed they do. A recursion that is
// legal (sys.setrecursionlimit) must not overflow the C stack, or run into 3.12's limit on C recursion, because of us.
// So a thread that is nested deep takes the hook out while it goes deeper; others only miss frames that they could have
// had.
static PyObject* relieve(FJ_EVAL_PARAMS) {
  PyInterpreterState* interp = fj_abi_interpreter(tstate);
  const int ours = get_evaluator(interp) == evaluate;
  if (ours) set_evaluator(interp, previous_evaluator);
  PyObject* result = previous_evaluator(FJ_EVAL_ARGS);
  if (ours && get_evaluator(interp) == previous_evaluator && framejit_hook_installed()) set_evaluator(interp, evaluate);
  return result;
}
#endif

static PyObject* evaluate_default(FJ_EVAL_PARAMS) {
  PyObject* result;
  ++fj_thread.nesting;
#if FJ_MAX_NESTING
  if (fj_thread.nesting > FJ_MAX_NESTING)
    result = relieve(FJ_EVAL_ARGS);
  else
#endif
    result = previous_evaluator(FJ_EVAL_ARGS);
  --fj_thread.nesting;
  return result;
}

static PyObject* evaluate_unhooked(FJ_EVAL_PARAMS) {
  const int token = framejit_hook_pause();
  PyObject* result = evaluate_default(FJ_EVAL_ARGS);
  framejit_hook_resume(token);
  return result;
}

static int is_hooked(void) {
  if (!fj_thread.active && fj_everywhere && fj_thread.entered == 0) fj_thread.active = fj_thread.entered = 1;
  return fj_thread.active;
}

static PyObject* evaluate(FJ_EVAL_PARAMS) {
  PyCodeObject* code = frame_code(frame);
  if (!is_hooked() || throw_flag || !is_plain_function(code) || framejit_is_traced(FJ_EVAL_TSTATE) ||
      framejit_code_is_monitored(code))
    return evaluate_default(FJ_EVAL_ARGS);
  FramejitFrameView view;
  fill_view(frame, &view);
  PyObject* result = NULL;
  const int answer = fj_hook_dispatch(&view, &result);
  if (answer == 0) return evaluate_default(FJ_EVAL_ARGS);
  if (answer == 2) return evaluate_unhooked(FJ_EVAL_ARGS);
  dispose(FJ_EVAL_TSTATE, frame);
  return result;
}

void fj_abi_install(PyInterpreterState* interp) {
  _PyFrameEvalFunction now = get_evaluator(interp);
  if (now == evaluate || (buried && now != _PyEval_EvalFrameDefault)) return;
  previous_evaluator = now;
  buried = 0;
  set_evaluator(interp, evaluate);
}

void fj_abi_uninstall(PyInterpreterState* interp) {
  _PyFrameEvalFunction now = get_evaluator(interp);
  buried = now != evaluate && now != _PyEval_EvalFrameDefault;
  if (now == evaluate) set_evaluator(interp, previous_evaluator);
}

Py_ssize_t* fj_abi_code_extra_users(PyInterpreterState* interp) { return &interp->co_extra_user_count; }

int fj_abi_installed(PyInterpreterState* interp) { return get_evaluator(interp) == evaluate; }
