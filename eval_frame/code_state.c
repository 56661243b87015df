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

// The interpreter tells each that has room in co_extra when a code object ends, with NULL if they have put nothing
// there. A program would see the end of our code objects, so there is no room for those who came after us.
static int set_first(PyCodeObject* code, CodeState* entry) {
  Py_ssize_t* users = fj_abi_code_extra_users(fj_abi_interpreter(PyThreadState_Get()));
  const Py_ssize_t count = *users;
  if (count > extra_index) *users = extra_index + 1;
  const int status = fj_abi_set_code_extra(code, extra_index, entry);  // only takes memory: there is nothing to free
  *users = count;
  return status;
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
  void* old = NULL;
  const int first = fj_abi_get_code_extra(code, extra_index, &old) == 0 && old == NULL;
  if ((first ? set_first(code, entry) : fj_abi_set_code_extra(code, extra_index, entry)) != 0) {
    PyMem_Free(entry);
    return -1;
  }
  return 0;
}

int framejit_code_has_data_of_others(PyCodeObject* code) {
  for (Py_ssize_t i = 0; i < MAX_CO_EXTRA_USERS; ++i) {
    void* extra = NULL;
    if (i != extra_index && fj_abi_get_code_extra(code, i, &extra) == 0 && extra != NULL) return 1;
  }
  return 0;
}
