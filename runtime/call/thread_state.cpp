#include "runtime/call/thread_state.h"

namespace framejit::runtime {

ThreadState& thread_state() {
  thread_local ThreadState* state = nullptr;  // outlives the thread's own destructors, which may run without an interpreter
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

TwinScope::TwinScope(PyThreadState* tstate)
    : tstate_(tstate), outer_(thread_state().scope), transfers_(thread_state().transfers.size()) {
  thread_state().scope = this;
}

TwinScope::~TwinScope() {
  ThreadState& state = thread_state();
  if (hooked_) framejit_hook_leave(tstate_, token_);
  state.scope = outer_;
  if (state.transfers.size() <= transfers_) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  while (state.transfers.size() > transfers_) state.pop();
  PyErr_Restore(type, value, traceback);
}

void TwinScope::want_hook() {
  if (hooked_) return;
  hooked_ = true;
  token_ = framejit_hook_enter(tstate_);
}

}  // namespace framejit::runtime
