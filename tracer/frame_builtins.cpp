#include "tracer/frame_builtins.h"

#include <string>

#include "base/once.h"
#include "tracer/library_code.h"
#include "tracer/simulator.h"

namespace framejit {

PyObject* own_builtins() {
  return once_under_lock([] {
    Ref module = Ref::steal(PyImport_ImportModule("builtins"));
    if (!module) PyErr_Clear();
    return module ? Ref::borrow(PyModule_GetDict(module.get())).release() : nullptr;
  });
}

PyObject* builtins_named_by(PyObject* value) {
  if (value && PyModule_Check(value)) return PyModule_GetDict(value);
  return value && PyDict_Check(value) ? value : nullptr;
}

static PyObject* name_of_builtins() {
  static PyObject* const name = interned("__builtins__");
  return name;
}

PyObject* builtins_of_call(PyObject* function) {
  PyObject* name = name_of_builtins();
  if (_PyType_Lookup(&PyFunction_Type, name)) {
    Ref kept = Ref::steal(PyObject_GetAttr(function, name));  // the function keeps it alive
    if (!kept) PyErr_Clear();
    return builtins_named_by(kept.get());
  }
  PyObject* globals = PyFunction_GET_GLOBALS(function);
  if (globals == PyEval_GetGlobals()) return PyEval_GetBuiltins();
  return builtins_named_by(PyDict_GetItem(globals, name));
}

namespace {

std::string name_of_module(PyObject* globals) { return std::string(module_name(globals)); }

bool changes_builtins(World& world, PyObject* globals) {
  PyObject* name = name_of_builtins();
  PyObject* shadow = world.representation(globals);
  return world.overlay(globals, name).found ||
         (shadow && PyDict_GetItem(shadow, name) != PyDict_GetItem(globals, name));
}

}  // namespace

// Code that is made anew, for the rest of a frame, takes what its module has.
void Simulator::rely_on_builtins(const SimFrame& frame) {
  PyObject *globals = frame.globals.get(), *builtins = frame.builtins.get(), *name = name_of_builtins();
  if (changes_builtins(world_, globals)) stop(StopReason::kForeignBuiltins, name_of_module(globals));
  if (!frame.code->reads_globals) return;
  PyObject* value = PyDict_GetItem(globals, name);
  const bool found_again = value ? builtins_named_by(value) == builtins : !builtins || builtins == own_builtins();
  if (!found_again) stop(StopReason::kForeignBuiltins, name_of_module(globals));
  if (is_in_backward()) note_frozen(FrozenRead::Kind::kItem, globals, name, value);
  world_.rely_on_item(globals, name, value);
}

void Simulator::require_same_builtins() {
  for (const SimFrame* frame : frames_)
    if (changes_builtins(world_, frame->globals.get()))
      throw StopTrace{TraceStop{StopReason::kForeignBuiltins, name_of_module(frame->globals.get()), location_text()},
                      {}};
}

}  // namespace framejit
