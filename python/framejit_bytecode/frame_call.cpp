#include "python/framejit_bytecode/frame_call.h"

#include "base/py_ref.h"
#include "eval_frame/frame_view.h"

namespace framejit {
namespace {

PyObject* null_object = nullptr;
PyTypeObject* frame_type = nullptr;

struct Frame {
  PyObject_HEAD FrameView view;
  bool alive;
};

struct FrameCall {
  PyObject_HEAD PyObject* callback;
};

Frame* as_frame(PyObject* self) {
  auto* frame = reinterpret_cast<Frame*>(self);
  if (frame->alive) return frame;
  PyErr_SetString(PyExc_RuntimeError, "the call that this frame was given to is over");
  return nullptr;
}

void dealloc_plain(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyObject* get(PyObject** slot) { return Ref::borrow(*slot != nullptr ? *slot : null_object).release(); }

PyObject* set(PyObject** slot, PyObject* value) {
  framejit_slot_set(slot, value == null_object ? nullptr : Ref::borrow(value).release());
  Py_RETURN_NONE;
}

PyObject** local_slot(PyObject* self, long index) {
  Frame* frame = as_frame(self);
  if (frame == nullptr) return nullptr;
  if (index >= 0 && index < frame->view.nlocalsplus) return &frame->view.localsplus[index];
  PyErr_SetString(PyExc_IndexError, "no such slot");
  return nullptr;
}

PyObject* frame_local(PyObject* self, PyObject* args) {
  long index;
  if (!PyArg_ParseTuple(args, "l", &index)) return nullptr;
  PyObject** slot = local_slot(self, index);
  return slot != nullptr ? get(slot) : nullptr;
}

PyObject* frame_set_local(PyObject* self, PyObject* args) {
  long index;
  PyObject* value;
  if (!PyArg_ParseTuple(args, "lO", &index, &value)) return nullptr;
  PyObject** slot = local_slot(self, index);
  return slot != nullptr ? set(slot, value) : nullptr;
}

PyObject* frame_stack(PyObject* self, PyObject* args) {
  long index;
  if (!PyArg_ParseTuple(args, "l", &index)) return nullptr;
  Frame* frame = as_frame(self);
  return frame != nullptr ? get(&frame->view.stack[index]) : nullptr;
}

PyObject* frame_set_stack(PyObject* self, PyObject* args) {
  long index;
  PyObject* value;
  if (!PyArg_ParseTuple(args, "lO", &index, &value)) return nullptr;
  Frame* frame = as_frame(self);
  return frame != nullptr ? set(&frame->view.stack[index], value) : nullptr;
}

PyObject* frame_facts(PyObject* self, PyObject*) {
  Frame* frame = as_frame(self);
  if (frame == nullptr) return nullptr;
  return Py_BuildValue("(OiiO)", frame->view.code, frame->view.lasti, frame->view.nlocalsplus, frame->view.globals);
}

PyObject* frame_blocks(PyObject* self, PyObject*) {
  Frame* frame = as_frame(self);
  return frame != nullptr ? PyLong_FromLong(frame->view.blocks) : nullptr;
}

PyObject* frame_handled(PyObject*, PyObject*) {
  PyObject *type, *value, *traceback;
  PyErr_GetExcInfo(&type, &value, &traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return value != nullptr ? value : Ref::borrow(Py_None).release();
}

PyObject* frame_set_handled(PyObject*, PyObject* value) {
  if (value == Py_None) {
    PyErr_SetExcInfo(nullptr, nullptr, nullptr);
  } else {
    PyErr_SetExcInfo(Ref::borrow(reinterpret_cast<PyObject*>(Py_TYPE(value))).release(), Ref::borrow(value).release(),
                     PyException_GetTraceback(value));
  }
  Py_RETURN_NONE;
}

PyMethodDef frame_methods[] = {
    {"local", frame_local, METH_VARARGS, "local(index)"},
    {"set_local", frame_set_local, METH_VARARGS, "set_local(index, value)"},
    {"stack", frame_stack, METH_VARARGS, "stack(index)"},
    {"set_stack", frame_set_stack, METH_VARARGS, "set_stack(index, value)"},
    {"facts", frame_facts, METH_NOARGS, "facts() -> (code, lasti, number of slots, globals)"},
    {"blocks", frame_blocks, METH_NOARGS, "blocks() -> how many entries the block stack has; 0 from 3.11 on"},
    {"handled", frame_handled, METH_NOARGS, "handled() -> the exception being handled in this thread"},
    {"set_handled", frame_set_handled, METH_O, "set_handled(exception or None)"},
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot frame_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc_plain)}, {Py_tp_methods, frame_methods}, {0, nullptr}};
PyType_Spec frame_spec = {"framejit_bytecode._core.Frame", sizeof(Frame), 0, Py_TPFLAGS_DEFAULT, frame_slots};

PyObject* frame_call_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* callback;
  if (!PyArg_ParseTuple(args, "O", &callback)) return nullptr;
  auto* self = reinterpret_cast<FrameCall*>(type->tp_alloc(type, 0));
  if (self != nullptr) self->callback = Ref::borrow(callback).release();
  return reinterpret_cast<PyObject*>(self);
}

int frame_call_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(reinterpret_cast<FrameCall*>(self)->callback);
  return 0;
}

int frame_call_clear(PyObject* self) {
  Py_CLEAR(reinterpret_cast<FrameCall*>(self)->callback);
  return 0;
}

void frame_call_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  frame_call_clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* frame_call_call(PyObject* self, PyObject*, PyObject*) {
  Frame* frame = PyObject_New(Frame, frame_type);
  if (frame == nullptr) return nullptr;
  Ref owned = Ref::steal(reinterpret_cast<PyObject*>(frame));
  frame->alive = framejit_current_frame(&frame->view) == 0;
  PyObject* result = PyObject_CallFunctionObjArgs(reinterpret_cast<FrameCall*>(self)->callback, owned.get(), nullptr);
  frame->alive = false;
  return result;
}

PyType_Slot frame_call_slots[] = {{Py_tp_new, reinterpret_cast<void*>(frame_call_new)},
                                  {Py_tp_traverse, reinterpret_cast<void*>(frame_call_traverse)},
                                  {Py_tp_clear, reinterpret_cast<void*>(frame_call_clear)},
                                  {Py_tp_dealloc, reinterpret_cast<void*>(frame_call_dealloc)},
                                  {Py_tp_call, reinterpret_cast<void*>(frame_call_call)},
                                  {0, nullptr}};
PyType_Spec frame_call_spec = {"framejit_bytecode._core.FrameCall", sizeof(FrameCall), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, frame_call_slots};

int add(PyObject* module, const char* name, PyObject* value) {
  if (value == nullptr) return -1;
  Py_INCREF(value);
  if (PyModule_AddObject(module, name, value) == 0) return 0;
  Py_DECREF(value);
  return -1;
}

}  // namespace

int add_frame_call(PyObject* module) {
  if (frame_type != nullptr) return 0;
  frame_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&frame_spec));
  if (frame_type == nullptr) return -1;
  null_object = PyObject_CallObject(reinterpret_cast<PyObject*>(&PyBaseObject_Type), nullptr);
  if (add(module, "NULL", null_object) != 0) return -1;
  Ref call_type = Ref::steal(PyType_FromSpec(&frame_call_spec));
  return add(module, "FrameCall", call_type.get());
}

}  // namespace framejit
