// 3.9 and later: the evaluator is set through functions and takes the thread state.
#define FJ_EVAL_PARAMS PyThreadState *tstate, Frame *frame, int throw_flag
#define FJ_EVAL_ARGS tstate, frame, throw_flag
#define FJ_EVAL_TSTATE tstate

PyInterpreterState* fj_abi_interpreter(PyThreadState* tstate) { return PyThreadState_GetInterpreter(tstate); }

int framejit_is_collecting(PyThreadState* tstate) { return tstate->interp->gc.collecting; }

static _PyFrameEvalFunction get_evaluator(PyInterpreterState* interp) {
  return _PyInterpreterState_GetEvalFrameFunc(interp);
}
static void set_evaluator(PyInterpreterState* interp, _PyFrameEvalFunction evaluator) {
  _PyInterpreterState_SetEvalFrameFunc(interp, evaluator);
}
