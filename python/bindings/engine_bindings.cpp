// Switches, totals and caches of the process.
#include "base/py_ref.h"
#include "python/bindings/bindings.h"
#include "runtime/cache/capture_driver.h"
#include "runtime/call/shadow.h"
#include "runtime/call/static_function.h"
#include "runtime/engine.h"
#include "runtime/frame_handler.h"
#include "runtime/report/log.h"
#include "runtime/report/records.h"
#include "runtime/torch/torch_host.h"

namespace framejit {
namespace {

using runtime::engine;

PyObject* start(PyObject*, PyObject*) {
  runtime::TensorRuntime* tensors = torchlib::torch_runtime();
  if (!tensors) return nullptr;
  engine().start(tensors);
  runtime::install_frame_handler();
  Py_RETURN_NONE;
}

template <bool runtime::Engine::*kSwitch>
PyObject* set_switch(PyObject*, PyObject* flag) {
  const int on = PyObject_IsTrue(flag);
  if (on < 0) return nullptr;
  return PyBool_FromLong(std::exchange(engine().*kSwitch, on != 0));
}

PyObject* set_shadow(PyObject*, PyObject* args) {
  unsigned every;
  PyObject* callable;
  if (!PyArg_ParseTuple(args, "IO", &every, &callable)) return nullptr;
  engine().shadow = Ref::borrow(callable);
  engine().shadow_every = every;
  Py_RETURN_NONE;
}

PyObject* set_on_capture(PyObject*, PyObject* callable) {
  engine().on_capture = callable == Py_None ? Ref() : Ref::borrow(callable);
  Py_RETURN_NONE;
}

PyObject* run_eagerly(PyObject*, PyObject* args) {
  PyObject *fn, *positional, *keywords;
  if (!PyArg_ParseTuple(args, "OO!O!", &fn, &PyTuple_Type, &positional, &PyDict_Type, &keywords)) return nullptr;
  return runtime::run_in_eager_shadow(fn, positional, keywords).release();
}

PyObject* is_capturing(PyObject*, PyObject*) { return PyBool_FromLong(runtime::is_capturing()); }

// A capture ends where it meets this call; run for real, there is nothing to do.
PyObject* graph_break(PyObject*, PyObject*) { Py_RETURN_NONE; }

PyObject* mark_eager(PyObject*, PyObject* code) {
  if (!PyCode_Check(code)) {
    PyErr_SetString(PyExc_TypeError, "a code object is wanted");
    return nullptr;
  }
  if (!runtime::Engine::mark_eager(code)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* stats(PyObject*, PyObject*) { return runtime::stats_record(engine().stats).release(); }

PyObject* reset(PyObject*, PyObject*) {
  engine().reset();
  Py_RETURN_NONE;
}

PyObject* set_error_types(PyObject*, PyObject* args) {
  PyObject *internal, *graph_break;
  if (!PyArg_ParseTuple(args, "OO", &internal, &graph_break)) return nullptr;
  runtime::set_internal_error_type(internal);
  runtime::set_graph_break_error_type(graph_break);
  Py_RETURN_NONE;
}

bool read_prefixes(PyObject* list, std::vector<std::string>* prefixes) {
  Ref items = Ref::steal(PySequence_Tuple(list));
  if (!items) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    const char* text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(items.get(), i));
    if (!text) return false;
    prefixes->push_back(text);
  }
  return true;
}

PyObject* set_skipped_prefixes(PyObject*, PyObject* args) {
  PyObject *standard, *library;
  std::vector<std::string> standard_prefixes, library_prefixes;
  if (!PyArg_ParseTuple(args, "OO", &standard, &library) || !read_prefixes(standard, &standard_prefixes) ||
      !read_prefixes(library, &library_prefixes))
    return nullptr;
  engine().standard_prefixes = PrefixSet(std::move(standard_prefixes));
  engine().library_prefixes = PrefixSet(std::move(library_prefixes));
  Py_RETURN_NONE;
}

PyObject* device_of_meta_call(PyObject*, PyObject*) {
  const char* name = torchlib::device_of_meta_call();
  if (!name) Py_RETURN_NONE;
  return PyUnicode_FromString(name);
}

PyObject* has_node_hooks(PyObject*, PyObject* tensor) {
  if (!engine().tensors() || !engine().tensors()->is_tensor(tensor)) {
    PyErr_Format(PyExc_TypeError, "has_node_hooks() wants a tensor, got '%s'", Py_TYPE(tensor)->tp_name);
    return nullptr;
  }
  return PyBool_FromLong(torchlib::has_node_hooks(tensor));
}

PyObject* stop_reasons(PyObject*, PyObject*) { return runtime::stop_reason_records().release(); }

PyMethodDef kFunctions[] = {
    {"start", start, METH_NOARGS, "start()\n--\n\nConnects the engine with torch and the frame hook."},
    {"set_enabled", set_switch<&runtime::Engine::enabled>, METH_O, "set_enabled(flag)\n--\n\nReturns what it was."},
    {"set_strict", set_switch<&runtime::Engine::strict>, METH_O,
     "set_strict(flag)\n--\n\nWhether internal failures raise. Returns what it was."},
    {"set_shadow", set_shadow, METH_VARARGS,
     "set_shadow(n, compare)\n--\n\nOne call in n of each StaticFunction is made by compare(fn, args, kwargs)."},
    {"set_on_capture", set_on_capture, METH_O,
     "set_on_capture(callable)\n--\n\nEach capture calls it with its record, the guard that failed before it and a "
     "listing of the code around it. None: nobody is told."},
    {"set_notes_lines", set_switch<&runtime::Engine::notes_lines>, METH_O,
     "set_notes_lines(flag)\n--\n\nWhether captures note the lines that they follow. Returns what it was."},
    {"run_eagerly", run_eagerly, METH_VARARGS,
     "run_eagerly(fn, args, kwargs)\n--\n\nThe call, with nothing that is captured run on this thread."},
    {"is_capturing", is_capturing, METH_NOARGS, "is_capturing()\n--\n\nTrue in code that is being captured."},
    {"graph_break", graph_break, METH_NOARGS, "graph_break()\n--\n\nEnds the graph here; the next one starts behind."},
    {"mark_eager", mark_eager, METH_O, "mark_eager(code)\n--\n\nFrames of this code always run eagerly."},
    {"stats", stats, METH_NOARGS, "stats()\n--\n\nTotals since the last reset, as a dict."},
    {"reset", reset, METH_NOARGS, "reset()\n--\n\nDrops shared caches and totals."},
    {"set_error_types", set_error_types, METH_VARARGS, "set_error_types(internal, graph_break)\n--\n\n"},
    {"set_skipped_prefixes", set_skipped_prefixes, METH_VARARGS,
     "set_skipped_prefixes(standard, library)\n--\n\nFrames of files that begin with one of these are never hooked."},
    {"device_of_meta_call", device_of_meta_call, METH_NOARGS,
     "device_of_meta_call()\n--\n\nFor which kind of device a Meta kernel is asked on this thread, or None."},
    {"has_node_hooks", has_node_hooks, METH_O,
     "has_node_hooks(tensor)\n--\n\nWhether the node that adds to its gradient has hooks."},
    {"stop_reasons", stop_reasons, METH_NOARGS,
     "stop_reasons()\n--\n\nEach reason of a graph break: name -> (text, hint)."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

int add_engine_bindings(PyObject* module) { return PyModule_AddFunctions(module, kFunctions); }

}  // namespace framejit
