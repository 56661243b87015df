// Graphs that a program builds: framejit.Graph, graph_guard and Executor.
#include <new>

#include "base/format.h"
#include "python/bindings/bindings.h"
#include "runtime/call/thread_state.h"
#include "runtime/engine.h"
#include "runtime/torch/built_graph.h"
#include "runtime/torch/graph_hooks.h"
#include "runtime/torch/graph_type.h"

namespace framejit {
namespace {

using torchlib::BuiltGraph;
using torchlib::GraphExecutor;
using torchlib::GraphScope;

Ref text(const std::string& value) {
  return Ref::steal(PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "replace"));
}

template <class F>
void* slot(F* function) {
  return reinterpret_cast<void*>(function);
}

PyTypeObject* make_type(const char* name, int size, PyType_Slot* slots) {
  PyType_Spec spec = {name, size, 0, Py_TPFLAGS_DEFAULT, slots};
  return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
}

// The one graph that a constructor takes.
std::shared_ptr<BuiltGraph> only_graph(PyObject* args, PyObject* kwargs, const char* format) {
  static const char* names[] = {"graph", nullptr};
  PyObject* graph;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, const_cast<char**>(names), &graph)) return nullptr;
  return torchlib::graph_of_object(graph);
}

// ---- graph_guard ----

struct Guard {
  std::shared_ptr<BuiltGraph> graph;
  std::unique_ptr<GraphScope> scope;  // while it is in force
};

struct GuardObject {
  PyObject_HEAD Guard guard;
};

Guard& guard_of(PyObject* self) { return reinterpret_cast<GuardObject*>(self)->guard; }

// Guards in force on this thread, outermost first.
std::vector<Guard*>& guards_in_force() {
  static thread_local std::vector<Guard*> stack;
  return stack;
}

PyObject* new_guard(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  std::shared_ptr<BuiltGraph> graph = only_graph(args, kwargs, "O:graph_guard");
  PyObject* self = graph ? type->tp_alloc(type, 0) : nullptr;
  if (self) new (&guard_of(self)) Guard{std::move(graph), nullptr};
  return self;
}

// One that is in force holds a reference to itself: it is never destroyed then.
void destroy_guard(PyObject* self) {
  guard_of(self).~Guard();
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* enter_guard(PyObject* self, PyObject*) {
  Guard& guard = guard_of(self);
  if (guard.scope) {
    torchlib::set_graph_error("graph_guard cannot begin: it is in force already; make another one");
    return nullptr;
  }
  guard.scope = torchlib::enter_graph(guard.graph);
  if (!guard.scope) return nullptr;
  guards_in_force().push_back(&guard);
  ++runtime::engine().graph_guards;
  ++runtime::thread_state().graph_guards;
  Py_INCREF(self);
  return torchlib::make_graph_object(guard.graph).release();
}

PyObject* exit_guard(PyObject* self, PyObject*) {
  Guard& guard = guard_of(self);
  if (guards_in_force().empty() || guards_in_force().back() != &guard) {
    torchlib::set_graph_error("graph_guard cannot end: another guard began after it, or it began on another thread");
    return nullptr;
  }
  guards_in_force().pop_back();
  --runtime::engine().graph_guards;
  --runtime::thread_state().graph_guards;
  guard.scope.reset();
  Py_DECREF(self);
  Py_RETURN_NONE;
}

PyTypeObject* guard_type() {
  static PyMethodDef methods[] = {{"__enter__", enter_guard, METH_NOARGS, nullptr},
                                  {"__exit__", exit_guard, METH_VARARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
  static const char* doc =
      "graph_guard(graph)\n--\n\n"
      "`with graph_guard(g):` each operator that this thread calls becomes a node of g, and what it returns is a "
      "value:\n"
      "a tensor with sizes, strides, dtype and device, and no data. Grad mode is off inside.\n\n"
      "Operators on real tensors are recorded too; a real tensor becomes a constant of g, by reference.\n\n"
      "Raises GraphError where a graph cannot say what is asked for; the graph is then as it was before the operator.";
  static PyType_Slot slots[] = {{Py_tp_new, slot(&new_guard)},
                                {Py_tp_dealloc, slot(&destroy_guard)},
                                {Py_tp_methods, methods},
                                {Py_tp_doc, const_cast<char*>(doc)},
                                {0, nullptr}};
  return make_type("framejit.graph_guard", sizeof(GuardObject), slots);
}

// ---- Executor ----

struct ExecutorObject {
  PyObject_HEAD std::unique_ptr<GraphExecutor> executor;
};

std::unique_ptr<GraphExecutor>& executor_of(PyObject* self) {
  return reinterpret_cast<ExecutorObject*>(self)->executor;
}

PyObject* new_executor(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  std::shared_ptr<BuiltGraph> graph = only_graph(args, kwargs, "O:Executor");
  std::unique_ptr<GraphExecutor> executor = graph ? torchlib::make_graph_executor(*graph) : nullptr;
  PyObject* self = executor ? type->tp_alloc(type, 0) : nullptr;
  if (self) new (&executor_of(self)) std::unique_ptr<GraphExecutor>(std::move(executor));
  return self;
}

void destroy_executor(PyObject* self) {
  executor_of(self).~unique_ptr();
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* call_executor(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (kwargs && PyDict_GET_SIZE(kwargs) != 0) {
    PyErr_SetString(PyExc_TypeError, "an Executor takes its inputs in order, and no keywords");
    return nullptr;
  }
  return executor_of(self)->call(&PyTuple_GET_ITEM(args, 0), static_cast<size_t>(PyTuple_GET_SIZE(args))).release();
}

PyObject* executor_repr(PyObject* self) {
  const graph::Graph& graph = executor_of(self)->graph();
  return text(fmt::format("<framejit.Executor of graph @{}: {} nodes>", graph.name(), graph.live_node_count()))
      .release();
}

PyTypeObject* executor_type() {
  static const char* doc =
      "Executor(graph)\n--\n\n"
      "Runs a copy of the graph as it is now: `executor(*tensors)` gives the output, or a tuple where there is not "
      "one.\n\n"
      "The operators run in the order of the text, below autograd: writes into inputs and constants happen, random\n"
      "operators draw what eager draws, and an input that the graph returns is that same tensor.\n\n"
      "Raises GraphError if the graph does not verify. A call raises TypeError for a wrong number of inputs or what is "
      "no\n"
      "tensor, and GraphError for other sizes, strides, dtype or device than the input's, and, with grad mode on, for\n"
      "tensors that require grad.";
  static PyType_Slot slots[] = {{Py_tp_new, slot(&new_executor)},    {Py_tp_dealloc, slot(&destroy_executor)},
                                {Py_tp_call, slot(&call_executor)},  {Py_tp_repr, slot(&executor_repr)},
                                {Py_tp_doc, const_cast<char*>(doc)}, {0, nullptr}};
  return make_type("framejit.Executor", sizeof(ExecutorObject), slots);
}

// ---- functions ----

PyObject* set_graph_hooks(PyObject*, PyObject* args) {
  PyObject *value_type, *error_type, *prefixes;
  if (!PyArg_ParseTuple(args, "OOO", &value_type, &error_type, &prefixes)) return nullptr;
  Ref items = Ref::steal(PySequence_Tuple(prefixes));
  if (!items) return nullptr;
  std::vector<std::string> texts;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    const char* prefix = PyUnicode_AsUTF8(PyTuple_GET_ITEM(items.get(), i));
    if (!prefix) return nullptr;
    texts.emplace_back(prefix);
  }
  torchlib::graph_hooks() = {Ref::borrow(value_type), Ref::borrow(error_type), PrefixSet(std::move(texts))};
  Py_RETURN_NONE;
}

PyObject* describe_value(PyObject*, PyObject* value) { return torchlib::describe_graph_value(value).release(); }

PyMethodDef kFunctions[] = {
    {"set_graph_hooks", set_graph_hooks, METH_VARARGS,
     "set_graph_hooks(value_type, error_type, prefixes)\n--\n\nThe class of graph values and of their errors, and with "
     "what the files of libraries begin, whose lines nodes do not name."},
    {"describe_value", describe_value, METH_O, "describe_value(value)\n--\n\nrepr() of a graph value."},
    {nullptr, nullptr, 0, nullptr}};

int add_type(PyObject* module, const char* name, PyTypeObject* type) {
  if (!type) return -1;
  Py_INCREF(type);
  return PyModule_AddObject(module, name, reinterpret_cast<PyObject*>(type));
}

}  // namespace

int add_graph_bindings(PyObject* module) {
  if (add_type(module, "Graph", torchlib::graph_type()) < 0 || add_type(module, "graph_guard", guard_type()) < 0 ||
      add_type(module, "Executor", executor_type()) < 0)
    return -1;
  return PyModule_AddFunctions(module, kFunctions);
}

}  // namespace framejit
