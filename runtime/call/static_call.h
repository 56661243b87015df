// One call of a StaticFunction.
#pragma once

#include "runtime/cache/code_cache.h"
#include "runtime/call/bind.h"
#include "runtime/call/run_entry.h"

namespace framejit::runtime {

// What a StaticFunction knows of its function's present code. Its calls hold it: a reset, or new code, may come while
// they are under way, from another thread or from code that they run. The interpreter lock guards the count.
struct StaticFunctionState {
  Ref code;
  CodeInfoPtr info;
  std::shared_ptr<CodeCache> cache;  // null: this code always runs eagerly
  Segment* entry = nullptr;
  ArgumentBinder binder;
  Ref twin_function;
  size_t holders = 1;

  explicit StaticFunctionState(PyObject* code)
      : code(Ref::borrow(code)), info(engine().code_info(code)), binder(*info->decoded) {}
};

// The last holder drops what was captured.
void release_state(StaticFunctionState* state);

class StateHold {
 public:
  StateHold() = default;
  ~StateHold() {
    if (state_) release_state(state_);
  }
  StateHold(const StateHold&) = delete;
  StateHold& operator=(const StateHold&) = delete;
  void hold(StaticFunctionState* state) {
    ++state->holders;
    state_ = state;
  }
  StaticFunctionState* operator->() const { return state_; }
  explicit operator bool() const { return state_ != nullptr; }

 private:
  StaticFunctionState* state_ = nullptr;
};

struct StaticFunctionObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* callable;    // as given
  PyObject* bound_self;  // of a bound method
  PyObject* function;
  PyObject* backend;
  PyObject* dict;
  PyObject* weakrefs;
  StaticFunctionState* state;
  uint32_t shadow_calls;  // those that FRAMEJIT_SHADOW counts
  bool full_graph;
};

PyObject* graph_break_error_type();

class StaticCall {
 public:
  StaticCall(StaticFunctionObject& self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames)
      : self_(self), args_(args), nargs_(nargs), kwnames_(kwnames) {}
  PyObject* run();

 private:
  static constexpr size_t kSlotsOnStack = 48;

  PyObject* run_compiled();
  PyObject* run_with_self();
  PyObject* dispatch();
  PyObject* run_bound(PyObject** slots);
  PyObject* run_found(FoundEntry found);
  PyObject* run_original(bool hook);
  PyObject* run_twin();
  bool ready();
  bool make_state(PyObject* code);
  bool sync_twin_function();
  bool breaks_full_graph(const FoundEntry& found);
  PyFunctionObject* function() const { return reinterpret_cast<PyFunctionObject*>(self_.function); }
  SegmentStart start(PyObject** slots) const;

  StaticFunctionObject& self_;
  PyObject* const* args_;
  Py_ssize_t nargs_;
  PyObject* kwnames_;
  StateHold state_;
};

}  // namespace framejit::runtime
