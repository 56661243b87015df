#include "runtime/call/thread_state.h"

#include <frameobject.h>
#include <traceback.h>

namespace framejit::runtime {

ThreadState& thread_state() {
  thread_local ThreadState* state =
      nullptr;  // outlives the thread's own destructors, which may run without an interpreter
  if (!state) state = new ThreadState;
  return *state;
}

Transfer* ThreadState::find(void* frame, PyObject* code) {
  for (size_t i = transfers.size(); i-- > 0;) {
    Transfer& transfer = transfers[i];
    bool matches = transfer.frame ? transfer.frame == frame : transfer.code == code && code;
    if (!matches) continue;
    while (transfers.size() > i + 1) pop();
    return &transfers[i];
  }
  return nullptr;
}

void ThreadState::pop() {
  Transfer last = std::move(transfers.back());  // its objects go when the list is whole again
  transfers.pop_back();
}

void drop_code(Ref code) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  code = nullptr;
  PyErr_Restore(type, value, traceback);
}

void note_reached(const std::shared_ptr<CodeCache>& cache) {
  TwinScope* scope = thread_state().scope;
  if (scope && scope->root() && scope->root() != cache.get()) scope->root()->note_reached(cache);
}

TwinScope::TwinScope(PyThreadState* tstate, CodeCache* root)
    : tstate_(tstate), outer_(thread_state().scope), transfers_(thread_state().transfers.size()) {
  root_ = root || !outer_ ? root : outer_->root_;
  thread_state().scope = this;
}

TwinScope::~TwinScope() {
  if (hooked_) framejit_hook_leave(tstate_, token_);
  thread_state().scope = outer_;
  if (below_hidden_ && PyErr_Occurred()) drop_hidden_line();
  drop_stale_transfers();
}

void TwinScope::drop_stale_transfers() {
  ThreadState& state = thread_state();
  if (state.transfers.size() <= transfers_) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  while (state.transfers.size() > transfers_) state.pop();
  PyErr_Restore(type, value, traceback);
}

void TwinScope::drop_hidden_line() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback && PyTraceBack_Check(traceback)) {
    auto* head = reinterpret_cast<PyTracebackObject*>(traceback);
    if (reinterpret_cast<PyObject*>(head->tb_next) == below_hidden_.get()) {
      Py_DECREF(traceback);
      traceback = below_hidden_.release();
      PyException_SetTraceback(value, traceback);
    }
  }
  PyErr_Restore(type, value, traceback);
}

void TwinScope::hide_next_line() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  below_hidden_ = Ref::borrow(traceback);
  PyErr_Restore(type, value, traceback);
}

void TwinScope::want_hook() {
  if (hooked_) return;
  hooked_ = true;
  token_ = framejit_hook_enter(tstate_);
}

}  // namespace framejit::runtime
