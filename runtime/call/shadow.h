// FRAMEJIT_SHADOW=N: one call in N of each static function runs eagerly too, and a callable of the package compares
// what the two did.
#pragma once

#include "base/py_ref.h"

namespace framejit::runtime {

struct StaticFunctionObject;

// Where a thread stands with the shadowed call that is under way on it.
enum class ShadowPhase : char {
  kNone,
  kCompiled,  // calls of static functions run as ever, none of them is shadowed
  kEager,     // nothing that is captured runs
};

bool in_eager_shadow();

// Whether it is this call's turn. Counts it.
bool shadow_is_due(StaticFunctionObject& self);

enum class ShadowAnswer { kDone, kError, kNotRun };

// Lets the callable run the call both ways. kNotRun: the call reaches what cannot be put back, and is still to be made.
ShadowAnswer run_shadowed(StaticFunctionObject& self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
                          Ref* result);

// Calls `fn(*args, **kwargs)` with all that is captured left aside on this thread; `kwargs` is a dict.
Ref run_in_eager_shadow(PyObject* fn, PyObject* args, PyObject* kwargs);

}  // namespace framejit::runtime
