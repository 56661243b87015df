// What the tests need of eval_frame/, as plain functions of framejit_bytecode._core. Raw C-API.
#include "python/framejit_bytecode/eval_frame_bindings.h"

#include <vector>

#include "base/py_ref.h"
#include "eval_frame/hook.h"

namespace framejit {
namespace {

// The test handler: a dict from code object to the callable that replaces its frames.
PyObject* replacements = nullptr;

int replace_frame(FrameView* view, PyObject** result, void*) {
  if (replacements == nullptr) return 0;
  PyObject* callable = PyDict_GetItemWithError(replacements, reinterpret_cast<PyObject*>(view->code));
  if (callable == nullptr) return PyErr_Occurred() != nullptr;
  const int count = framejit_code_argument_count(view->code);
  Ref args = Ref::steal(PyTuple_New(count));
  if (!args) return 1;
  for (int i = 0; i < count; ++i)
    PyTuple_SET_ITEM(args.get(), i, Ref::borrow(framejit_frame_argument(view, i)).release());
  Ref owned = Ref::borrow(callable);
  *result = PyObject_Call(owned.get(), args.get(), nullptr);
  return 1;
}

PyObject* hook_set_replacements(PyObject*, PyObject* mapping) {
  // The handler that was there, which None puts back.
  static FramejitHookHandler before{};
  PyObject* old = replacements;
  replacements = mapping == Py_None ? nullptr : Ref::borrow(mapping).release();
  if (old == nullptr && replacements != nullptr) before = framejit_hook_set_handler({replace_frame, nullptr});
  if (old != nullptr && replacements == nullptr) framejit_hook_set_handler(before);
  Py_XDECREF(old);
  Py_RETURN_NONE;
}

PyObject* hook_call(PyObject*, PyObject* args) {
  if (PyTuple_GET_SIZE(args) < 1) return PyErr_Format(PyExc_TypeError, "hook_call(callable, *args)");
  Ref rest = Ref::steal(PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args)));
  if (!rest) return nullptr;
  HookScope scope(PyThreadState_Get());
  return PyObject_Call(PyTuple_GET_ITEM(args, 0), rest.get(), nullptr);
}

PyObject* hook_pause_call(PyObject*, PyObject* args) {
  HookPauseScope scope;
  return PyObject_CallObject(PyTuple_GET_ITEM(args, 0), nullptr);
}

PyObject* hook_state(PyObject*, PyObject*) {
  return Py_BuildValue("{s:i,s:i,s:i}", "installed", framejit_hook_installed(), "active", framejit_hook_active(),
                       "traced", framejit_is_traced(PyThreadState_Get()));
}

PyObject* slot_or_none(PyObject* value) { return Ref::borrow(value != nullptr ? value : Py_None).release(); }

// (code, lasti, locals and cells, the first `depth` stack slots) of the caller.
PyObject* frame_state(PyObject*, PyObject* arg) {
  const long depth = PyLong_AsLong(arg);
  if (depth < 0) return PyErr_Occurred() ? nullptr : PyErr_Format(PyExc_ValueError, "depth must not be negative");
  FrameView view;
  if (framejit_current_frame(&view) != 0) return PyErr_Format(PyExc_RuntimeError, "no frame");
  Ref locals = Ref::steal(PyList_New(view.nlocalsplus));
  Ref stack = Ref::steal(PyList_New(depth));
  if (!locals || !stack) return nullptr;
  for (int i = 0; i < view.nlocalsplus; ++i) PyList_SET_ITEM(locals.get(), i, slot_or_none(view.localsplus[i]));
  for (long j = 0; j < depth; ++j) PyList_SET_ITEM(stack.get(), j, slot_or_none(view.stack[j]));
  return Py_BuildValue("(OiOO)", view.code, view.lasti, locals.get(), stack.get());
}

PyObject* frame_set_local(PyObject*, PyObject* args) {
  int index;
  PyObject* value;
  FrameView view;
  if (!PyArg_ParseTuple(args, "iO", &index, &value)) return nullptr;
  if (framejit_current_frame(&view) != 0 || index < 0 || index >= view.nlocalsplus)
    return PyErr_Format(PyExc_IndexError, "no such slot");
  framejit_slot_set(&view.localsplus[index], Ref::borrow(value).release());
  Py_RETURN_NONE;
}

PyObject* frame_set_stack(PyObject*, PyObject* args) {
  int index;
  PyObject* value;
  FrameView view;
  if (!PyArg_ParseTuple(args, "iO", &index, &value)) return nullptr;
  if (framejit_current_frame(&view) != 0 || index < 0) return PyErr_Format(PyExc_IndexError, "no such slot");
  framejit_slot_set(&view.stack[index], Ref::borrow(value).release());
  Py_RETURN_NONE;
}

bool is_code(PyObject* object) {
  if (PyCode_Check(object)) return true;
  PyErr_SetString(PyExc_TypeError, "expected a code object");
  return false;
}

PyObject* code_state_set(PyObject*, PyObject* args) {
  PyObject *code, *state;
  if (!PyArg_ParseTuple(args, "OO", &code, &state) || !is_code(code)) return nullptr;
  Py_INCREF(state);
  auto drop = [](void* p) { Py_DECREF(static_cast<PyObject*>(p)); };
  if (framejit_code_state_set(reinterpret_cast<PyCodeObject*>(code), state, drop) != 0) {
    Py_DECREF(state);
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyObject* code_state_get(PyObject*, PyObject* code) {
  if (!is_code(code)) return nullptr;
  return slot_or_none(static_cast<PyObject*>(framejit_code_state_get(reinterpret_cast<PyCodeObject*>(code))));
}

PyMethodDef methods[] = {
    {"hook_set_replacements", hook_set_replacements, METH_O,
     "hook_set_replacements(mapping)\n\nSet the code -> callable mapping that hooked frames are replaced by, or None."},
    {"hook_call", hook_call, METH_VARARGS,
     "hook_call(callable, *args)\n\nCall with the frame hook on for this thread."},
    {"hook_pause_call", hook_pause_call, METH_VARARGS,
     "hook_pause_call(callable)\n\nCall with the hook off for this thread."},
    {"hook_state", hook_state, METH_NOARGS,
     "hook_state() -> dict\n\nWhether the hook is installed, active here, traced."},
    {"frame_state", frame_state, METH_O, "frame_state(depth) -> (code, lasti, locals, stack) of the caller."},
    {"frame_set_local", frame_set_local, METH_VARARGS, "frame_set_local(index, value) in the caller's frame."},
    {"frame_set_stack", frame_set_stack, METH_VARARGS, "frame_set_stack(index, value) in the caller's operand stack."},
    {"code_state_set", code_state_set, METH_VARARGS,
     "code_state_set(code, object)\n\nKeep an object with a code object."},
    {"code_state_get", code_state_get, METH_O, "code_state_get(code) -> object or None"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

int add_eval_frame_bindings(PyObject* module) { return PyModule_AddFunctions(module, methods); }

}  // namespace framejit
