#include "runtime/call/static_function.h"

#include <structmember.h>

#include <utility>

#include "base/check.h"
#include "base/once.h"
#include "runtime/cache/capture_driver.h"
#include "runtime/call/static_call.h"
#include "runtime/report/log.h"

namespace framejit::runtime {
namespace {

StaticFunctionObject* as_static(PyObject* obj) { return reinterpret_cast<StaticFunctionObject*>(obj); }

// ---- calls ----

PyObject* call_static_function(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  StaticFunctionObject* me = as_static(self);
  if (!me->callable) {
    PyErr_SetString(PyExc_RuntimeError, "this StaticFunction is being destroyed");
    return nullptr;
  }
  Ref keep = Ref::borrow(self);  // a call may drop the last reference that the caller has
  try {
    return StaticCall(*me, args, PyVectorcall_NARGS(nargsf), kwnames).run();
  } catch (const std::exception& error) {
    raise_internal_error(error.what());
    return nullptr;
  }
}

PyObject* bind_to(PyObject* self, PyObject* instance, PyObject*) {
  if (!instance || instance == Py_None || as_static(self)->bound_self) {
    Py_INCREF(self);
    return self;
  }
  return PyMethod_New(self, instance);
}

// ---- life ----

void drop_captures(StaticFunctionObject* me) {
  if (StaticFunctionState* state = std::exchange(me->state, nullptr)) release_state(state);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  StaticFunctionObject* me = as_static(self);
  Py_VISIT(me->callable);
  Py_VISIT(me->bound_self);
  Py_VISIT(me->function);
  Py_VISIT(me->backend);
  Py_VISIT(me->dict);
  if (!me->state) return 0;
  Py_VISIT(me->state->twin_function.get());
  if (!me->state->cache) return 0;
  for (const auto& [at, segment] : me->state->cache->segments())
    for (const auto& entry : segment->entries())
      for (const Ref& object : entry->objects().held()) Py_VISIT(object.get());
  return 0;
}

int clear(PyObject* self) {
  StaticFunctionObject* me = as_static(self);
  drop_captures(me);
  Py_CLEAR(me->callable);
  Py_CLEAR(me->bound_self);
  Py_CLEAR(me->function);
  Py_CLEAR(me->backend);
  Py_CLEAR(me->dict);
  return 0;
}

void destroy(PyObject* self) {
  PyObject_GC_UnTrack(self);
  if (as_static(self)->weakrefs) PyObject_ClearWeakRefs(self);
  clear(self);
  Py_TYPE(self)->tp_free(self);
}

PyObject* new_object(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"fn", "full_graph", "backend", nullptr};
  PyObject *callable, *backend = Py_None;
  int full_graph = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$pO:StaticFunction", const_cast<char**>(names), &callable,
                                   &full_graph, &backend))
    return nullptr;
  return make_static_function(callable, full_graph != 0, backend == Py_None ? nullptr : backend).release();
}

PyObject* repr(PyObject* self) {
  return PyUnicode_FromFormat("<framejit.StaticFunction of %R>", as_static(self)->callable);
}

// ---- attributes ----

PyObject* reset(PyObject* self, PyObject*) {
  drop_captures(as_static(self));
  Py_RETURN_NONE;
}

PyObject* get_target(PyObject* self, void*) {
  PyObject* target = as_static(self)->callable;
  if (!target) target = Py_None;
  Py_INCREF(target);
  return target;
}

// `.graphs` and the like are put together in Python, framejit/_inspect.py.
PyObject* call_inspect(PyObject* self, const char* name) {
  Ref module = Ref::steal(PyImport_ImportModule("framejit._inspect"));
  return module ? PyObject_CallMethod(module.get(), name, "O", self) : nullptr;
}
PyObject* get_inspected(PyObject* self, void* name) { return call_inspect(self, static_cast<const char*>(name)); }
PyObject* cache_info(PyObject* self, PyObject*) { return call_inspect(self, "cache_info"); }

// As a function does: copies are the object itself, and pickles name it.
PyObject* reduce(PyObject* self, PyObject*) {
  PyObject* target = as_static(self)->callable;
  if (target && PyFunction_Check(target)) return PyObject_GetAttrString(target, "__qualname__");
  PyErr_Format(PyExc_TypeError, "cannot copy or pickle %R: convert the copy instead", self);
  return nullptr;
}

// As copy.deepcopy() does with functions and with bound methods: that of the object's copy.
PyObject* deep_copy(PyObject* self, PyObject* memo) {
  StaticFunctionObject* me = as_static(self);
  if (!me->bound_self) {
    Py_INCREF(self);
    return self;
  }
  Ref module = Ref::steal(PyImport_ImportModule("copy"));
  Ref owner = Ref::steal(module ? PyObject_CallMethod(module.get(), "deepcopy", "OO", me->bound_self, memo) : nullptr);
  Ref method = Ref::steal(owner ? PyMethod_New(me->function, owner.get()) : nullptr);
  Ref copied = method ? make_static_function(method.get(), me->full_graph, me->backend) : nullptr;
  if (copied && me->dict) {
    as_static(copied.get())->dict = PyDict_Copy(me->dict);
    if (!as_static(copied.get())->dict) return nullptr;
  }
  return copied.release();
}

// Any other attribute is the function's own: __name__, __module__, __code__, ...
PyObject* get_attribute(PyObject* self, PyObject* name) {
  PyObject* value = PyObject_GenericGetAttr(self, name);
  if (value || !PyErr_ExceptionMatches(PyExc_AttributeError) || !as_static(self)->callable) return value;
  PyErr_Clear();
  return PyObject_GetAttr(as_static(self)->callable, name);
}

void* mutable_text(const char* name) { return const_cast<char*>(name); }

PyGetSetDef kProperties[] = {
    {"__wrapped__", get_target, nullptr, "The function or bound method that this stands for.", nullptr},
    {"graphs", get_inspected, nullptr, "The captured graphs, a list of framejit.CapturedGraph.",
     mutable_text("graphs")},
    {"guards", get_inspected, nullptr, "What the captures rely on, in words: a list of lists of str.",
     mutable_text("guards")},
    {"code", get_inspected, nullptr, "The regenerated code as a readable listing.", mutable_text("code")},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMethodDef kMethods[] = {
    {"reset", reset, METH_NOARGS, "reset()\n--\n\nDrops all that was captured; the next call captures again."},
    {"cache_info", cache_info, METH_NOARGS, "cache_info()\n--\n\nHits, misses and entries, as framejit.CacheInfo."},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {"__deepcopy__", deep_copy, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyTypeObject make_type() {
  PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
  t.tp_name = "framejit.StaticFunction";
  t.tp_doc = "A function that runs as captured graphs. Made by framejit.to_static().";
  t.tp_basicsize = sizeof(StaticFunctionObject);
  t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | _Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
  t.tp_vectorcall_offset = offsetof(StaticFunctionObject, vectorcall);
  t.tp_call = PyVectorcall_Call;
  t.tp_dictoffset = offsetof(StaticFunctionObject, dict);
  t.tp_weaklistoffset = offsetof(StaticFunctionObject, weakrefs);
  t.tp_dealloc = destroy;
  t.tp_traverse = traverse;
  t.tp_clear = clear;
  t.tp_descr_get = bind_to;
  t.tp_getattro = get_attribute;
  t.tp_getset = kProperties;
  t.tp_methods = kMethods;
  t.tp_repr = repr;
  t.tp_new = new_object;
  t.tp_alloc = PyType_GenericAlloc;
  t.tp_free = PyObject_GC_Del;
  return t;
}

PyObject*& graph_break_error() {
  static PyObject* type = PyExc_RuntimeError;
  return type;
}

}  // namespace

PyTypeObject* static_function_type() {
  static PyTypeObject type = make_type();
  const bool ready = once_under_lock([] { return PyType_Ready(&type) == 0; });
  return ready ? &type : nullptr;
}

Ref make_static_function(PyObject* callable, bool full_graph, PyObject* backend) {
  PyObject* function = PyMethod_Check(callable) ? PyMethod_GET_FUNCTION(callable) : callable;
  if (!PyFunction_Check(function)) {
    PyErr_Format(PyExc_TypeError, "StaticFunction needs a Python function or a bound method of one, got %.200s",
                 Py_TYPE(callable)->tp_name);
    return nullptr;
  }
  PyTypeObject* type = static_function_type();
  Ref made = type ? Ref::steal(type->tp_alloc(type, 0)) : nullptr;
  if (!made) return nullptr;
  StaticFunctionObject* me = as_static(made.get());
  me->vectorcall = call_static_function;
  me->callable = Ref::borrow(callable).release();
  me->function = Ref::borrow(function).release();
  if (PyMethod_Check(callable)) me->bound_self = Ref::borrow(PyMethod_GET_SELF(callable)).release();
  me->backend = Ref::borrow(backend).release();
  me->full_graph = full_graph;
  return made;
}

bool is_static_function(PyObject* obj) { return obj && Py_TYPE(obj) == static_function_type(); }

PyObject* static_function_target(PyObject* obj) { return is_static_function(obj) ? as_static(obj)->callable : nullptr; }

std::shared_ptr<CodeCache> static_function_cache(PyObject* obj) {
  if (!is_static_function(obj) || !as_static(obj)->state) return nullptr;
  return as_static(obj)->state->cache;
}

void set_graph_break_error_type(PyObject* type) {
  Py_INCREF(type);
  graph_break_error() = type;
}

PyObject* graph_break_error_type() { return graph_break_error(); }

}  // namespace framejit::runtime
