// Scope without the GIL. Does nothing on a thread that does not hold it.
#pragma once

#include <Python.h>

namespace framejit::torchlib {

class AllowThreads {
 public:
  AllowThreads() : state_(PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
  ~AllowThreads() {
    if (state_) PyEval_RestoreThread(state_);
  }
  AllowThreads(const AllowThreads&) = delete;
  AllowThreads& operator=(const AllowThreads&) = delete;

 private:
  PyThreadState* state_;
};

// Scope with the GIL, on any thread.
class HoldGil {
 public:
  HoldGil() : state_(PyGILState_Ensure()) {}
  ~HoldGil() { PyGILState_Release(state_); }
  HoldGil(const HoldGil&) = delete;
  HoldGil& operator=(const HoldGil&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace framejit::torchlib
