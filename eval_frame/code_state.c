// Per-code state: one slot of co_extra holds a small header with the state and its destructor.
#include "eval_frame/abi.h"
#include "eval_frame/hook.h"

typedef struct CodeState {
  void* state;
  void (*free)(void*);
} CodeState;

static Py_ssize_t extra_index = -1;  // requested once, under the GIL

static void drop(void* extra) {
  CodeState* entry = (CodeState*)extra;
  if (entry == NULL) return;
  if (entry->free != NULL && entry->state != NULL) entry->free(entry->state);
  PyMem_Free(entry);
}

static int ready(void) {
  if (extra_index < 0) extra_index = fj_abi_request_code_extra(drop);
  return extra_index >= 0;
}

void* framejit_code_state_get(PyCodeObject* code) {
  void* extra = NULL;
  if (extra_index < 0 || fj_abi_get_code_extra(code, extra_index, &extra) != 0) return NULL;
  return extra != NULL ? ((CodeState*)extra)->state : NULL;
}

int framejit_code_state_set(PyCodeObject* code, void* state, void (*free)(void*)) {
  if (!ready()) {
    PyErr_SetString(PyExc_RuntimeError, "framejit: the interpreter has no room for per-code state");
    return -1;
  }
  CodeState* entry = (CodeState*)PyMem_Malloc(sizeof(CodeState));
  if (entry == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  entry->state = state;
  entry->free = free;
  // Frees the old entry, if any.
  if (fj_abi_set_code_extra(code, extra_index, entry) != 0) {
    PyMem_Free(entry);
    return -1;
  }
  return 0;
}
