// Context variables (PEP 567) that the trace sets. They are really set while the trace runs, so that the tokens are
// real ones, and put back when it ends. What is set and not reset when the capture ends cannot be replayed, since a
// token stands for a state: the capture then ends before the first such call.
#pragma once

#include <vector>

#include "base/py_ref.h"
#include "tracer/signals.h"

namespace framejit {

class ContextVars {
 public:
  ContextVars() = default;
  ContextVars(const ContextVars&) = delete;
  ContextVars& operator=(const ContextVars&) = delete;
  ~ContextVars();

  // Each sets a Python error where the result is null or false.
  Ref set(PyObject* var, PyObject* value, BreakPoint before);
  bool reset(PyObject* var, PyObject* token);

  bool is_set(PyObject* var) const;
  bool has_token(PyObject* token) const;
  // Of a token of the trace, also one that is used up: whether the trace had set the variable before.
  bool replaced_own(PyObject* token) const;
  // Where the capture could end before all that is set now. Invalid if nothing is.
  BreakPoint first_set() const { return set_.empty() ? BreakPoint{} : set_.front().before; }

 private:
  struct Set {
    Ref var, token;
    BreakPoint before;
  };
  std::vector<Set> set_;  // oldest first
  std::vector<Ref> replaced_own_;
};

class Simulator;
struct SymValue;

namespace builtins {

// `old_value` of a token that the trace made: what the program had set is read under guards.
SymValue old_value(Simulator& sim, PyObject* token);

}  // namespace builtins
}  // namespace framejit
