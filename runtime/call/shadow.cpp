#include "runtime/call/shadow.h"

#include "runtime/call/run_entry.h"
#include "runtime/call/static_call.h"
#include "runtime/call/thread_state.h"

namespace framejit::runtime {
namespace {

class PhaseScope {
 public:
  explicit PhaseScope(ShadowPhase phase) : before_(thread_state().shadow) { thread_state().shadow = phase; }
  ~PhaseScope() { thread_state().shadow = before_; }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  ShadowPhase before_;
};

Ref tuple_of(PyObject* const* args, Py_ssize_t count) {
  Ref tuple = Ref::steal(PyTuple_New(count));
  for (Py_ssize_t i = 0; tuple && i < count; ++i) {
    Py_INCREF(args[i]);
    PyTuple_SET_ITEM(tuple.get(), i, args[i]);
  }
  return tuple;
}

Ref dict_of(PyObject* kwnames, PyObject* const* values) {
  Ref dict = Ref::steal(PyDict_New());
  for (Py_ssize_t i = 0; dict && kwnames && i < PyTuple_GET_SIZE(kwnames); ++i)
    if (PyDict_SetItem(dict.get(), PyTuple_GET_ITEM(kwnames, i), values[i]) < 0) return nullptr;
  return dict;
}

// The traceback as the callable left it in the exception.
void raise_again(PyObject* error) {
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(error));
  Py_INCREF(type);
  Py_INCREF(error);
  PyErr_Restore(type, error, PyException_GetTraceback(error));
}

}  // namespace

bool in_eager_shadow() { return thread_state().shadow == ShadowPhase::kEager; }

bool shadow_is_due(StaticFunctionObject& self) {
  // Kernels of framejit's own are not held to eager's bits.
  if (self.backend && PyUnicode_Check(self.backend)) return false;
  if (thread_state().shadow != ShadowPhase::kNone || must_run_eagerly(PyThreadState_Get())) return false;
  return self.shadow_calls++ % engine().shadow_every == 0;
}

ShadowAnswer run_shadowed(StaticFunctionObject& self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
                          Ref* result) {
  Ref positional = tuple_of(args, nargs);
  Ref keywords = dict_of(kwnames, args + nargs);
  if (!positional || !keywords) return ShadowAnswer::kError;
  Ref callable = engine().shadow;
  PhaseScope scope(ShadowPhase::kCompiled);
  Ref answer = Ref::steal(PyObject_CallFunctionObjArgs(callable.get(), reinterpret_cast<PyObject*>(&self),
                                                       positional.get(), keywords.get(), nullptr));
  if (!answer) return ShadowAnswer::kError;
  if (answer.get() == Py_None) {
    ++engine().stats.unshadowed;
    return ShadowAnswer::kNotRun;
  }
  PyObject *returned, *raised;
  int compared;
  if (!PyArg_ParseTuple(answer.get(), "OOp", &returned, &raised, &compared)) return ShadowAnswer::kError;
  ++(compared ? engine().stats.shadowed : engine().stats.unshadowed);
  if (raised != Py_None) {
    raise_again(raised);
    return ShadowAnswer::kError;
  }
  *result = Ref::borrow(returned);
  return ShadowAnswer::kDone;
}

Ref run_in_eager_shadow(PyObject* fn, PyObject* args, PyObject* kwargs) {
  PhaseScope scope(ShadowPhase::kEager);
  return Ref::steal(PyObject_Call(fn, args, kwargs));
}

}  // namespace framejit::runtime
