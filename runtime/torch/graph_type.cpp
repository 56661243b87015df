#include "runtime/torch/graph_type.h"

#include <algorithm>
#include <cctype>
#include <new>

#include "base/format.h"
#include "graph/print.h"
#include "runtime/report/graph_data.h"
#include "runtime/torch/built_graph.h"
#include "runtime/torch/graph_hooks.h"

namespace framejit::torchlib {
namespace {

using Handle = std::shared_ptr<BuiltGraph>;

struct GraphObject {
  PyObject_HEAD Handle graph;
};

Handle& handle(PyObject* self) { return reinterpret_cast<GraphObject*>(self)->graph; }
BuiltGraph& built(PyObject* self) { return *handle(self); }

Ref text(const std::string& value) {
  return Ref::steal(PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "replace"));
}

PyObject* call_package(const char* module, const char* function, PyObject* self) {
  Ref imported = Ref::steal(PyImport_ImportModule(module));
  return imported ? PyObject_CallMethod(imported.get(), function, "O", self) : nullptr;
}

// ---- life ----

void destroy(PyObject* self) {
  handle(self).~shared_ptr();
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

bool is_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '.' || c == '<' || c == '>' || c == '-' || c >= 0x80;
  });
}

PyObject* new_object(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"name", nullptr};
  const char* name = "graph";
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|s:Graph", const_cast<char**>(names), &name)) return nullptr;
  if (!is_name(name))
    return PyErr_Format(PyExc_ValueError, "expected a name of letters, digits and any of '_.-<>', got '%s'", name);
  return make_graph_object(std::make_shared<BuiltGraph>(graph::Graph(name))).release();
}

PyObject* parse(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"text", "constants", nullptr};
  PyObject *source_object, *constants = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "U|O:parse", const_cast<char**>(names), &source_object, &constants))
    return nullptr;
  Py_ssize_t size;
  const char* source = PyUnicode_AsUTF8AndSize(source_object, &size);
  if (!source) return nullptr;
  Ref pool = Ref::steal(constants ? PySequence_Tuple(constants) : PyTuple_New(0));
  if (!pool) return nullptr;
  Handle graph = parse_built_graph({source, static_cast<size_t>(size)}, pool.get());
  return graph ? make_graph_object(std::move(graph)).release() : nullptr;
}

// ---- building ----

PyObject* input(PyObject* self, PyObject* args, PyObject* kwargs) {
  return add_graph_input(built(self), args, kwargs).release();
}

PyObject* output(PyObject* self, PyObject* values) {
  if (!set_graph_outputs(built(self), values)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* verify(PyObject* self, PyObject*) {
  if (!verify_built_graph(built(self))) return nullptr;
  Py_RETURN_NONE;
}

// ---- reading ----

PyObject* to_str(PyObject* self) { return text(graph::to_text(built(self).contents)).release(); }

PyObject* to_repr(PyObject* self) {
  const graph::Graph& graph = built(self).contents;
  return text(fmt::format("<framejit.Graph @{}: {} inputs, {} nodes, {} outputs>", graph.name(), graph.inputs().size(),
                          graph.live_node_count(), graph.outputs().size()))
      .release();
}

// Without the name and the lines of the program.
std::string bare_text(const graph::Graph& graph) {
  const std::string all = graph::to_text(graph, {.locations = false});
  return all.substr(all.find('('));
}

PyObject* same_as(PyObject* self, PyObject* other) {
  Handle graph = graph_of_object(other);
  return graph ? PyBool_FromLong(bare_text(built(self).contents) == bare_text(graph->contents)) : nullptr;
}

PyObject* get_name(PyObject* self, void*) { return text(built(self).contents.name()).release(); }
PyObject* get_inputs(PyObject* self, void*) { return runtime::GraphData(built(self).contents).inputs().release(); }
PyObject* get_outputs(PyObject* self, void*) { return runtime::GraphData(built(self).contents).outputs().release(); }
PyObject* get_nodes(PyObject* self, void*) { return runtime::GraphData(built(self).contents).nodes().release(); }
PyObject* get_constants(PyObject* self, void*) { return graph_constants(built(self)).release(); }

PyObject* get_sources(PyObject* self, void*) {
  std::vector<std::string> sources = built(self).sources;
  sources.resize(built(self).contents.inputs().size());
  return runtime::list_of(sources, text).release();
}

PyObject* to_dot(PyObject* self, PyObject*) { return call_package("framejit._drawing", "dot", self); }

PyObject* to_svg(PyObject* self, PyObject*) {
  if (built(self).contents.live_node_count() == 0) Py_RETURN_NONE;
  return call_package("framejit._drawing", "svg", self);
}

PyObject* to_fx(PyObject* self, PyObject*) { return graph_to_fx(built(self)).release(); }

// ---- pickling ----

PyObject* reduce(PyObject* self, PyObject*) {
  Ref parser = Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(self)), "parse"));
  Ref contents = Ref::steal(to_str(self)), constants = graph_constants(built(self));
  Ref sources = runtime::list_of(built(self).sources, text), why = text(built(self).why_no_fx);
  if (!parser || !contents || !constants || !sources || !why) return nullptr;
  return Py_BuildValue("O(OO)(OO)", parser.get(), contents.get(), constants.get(), sources.get(), why.get());
}

PyObject* set_state(PyObject* self, PyObject* state) {
  PyObject* sources;
  const char* why;
  if (!PyArg_ParseTuple(state, "O!s:__setstate__", &PyList_Type, &sources, &why)) return nullptr;
  std::vector<std::string> texts;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(sources); ++i) {
    const char* source = PyUnicode_AsUTF8(PyList_GET_ITEM(sources, i));
    if (!source) return nullptr;
    texts.emplace_back(source);
  }
  built(self).sources = std::move(texts);
  built(self).why_no_fx = why;
  Py_RETURN_NONE;
}

PyCFunction with_keywords(PyCFunctionWithKeywords function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef* methods() {
  static PyMethodDef table[] = {
      {"parse", with_keywords(parse), METH_VARARGS | METH_KEYWORDS | METH_STATIC,
       "parse(text, constants=())\n--\n\n"
       "The graph of a text. `constants`: the tensors and generators that const<0>, const<1>, ... stand for.\n\n"
       "Raises GraphError with line and column: what was expected there, and what was found."},
      {"input", with_keywords(input), METH_VARARGS | METH_KEYWORDS,
       "input(shape, dtype=torch.float32, device='cpu', strides=None)\n--\n\n"
       "A new input, as a value: a tensor without data. `strides`: None for a contiguous tensor."},
      {"output", output, METH_VARARGS,
       "output(*values)\n--\n\nWhat the graph returns, in place of what it returned before. Raises GraphError for "
       "what\n"
       "is no value of this graph; a real tensor becomes a constant."},
      {"verify", verify, METH_NOARGS,
       "verify()\n--\n\nRaises GraphError at the first node that is not right: what was expected, and what is there."},
      {"same_as", same_as, METH_O,
       "same_as(other)\n--\n\nWhether both have the same inputs, nodes and outputs. Names, lines of the program and "
       "the\n"
       "contents of constants are not compared."},
      {"to_dot", to_dot, METH_NOARGS, "to_dot()\n--\n\nThe graph in the language of Graphviz's `dot`."},
      {"_repr_svg_", to_svg, METH_NOARGS, "_repr_svg_()\n--\n\nWhat a notebook shows; None without nodes."},
      {"to_fx", to_fx, METH_NOARGS,
       "to_fx()\n--\n\nA torch.fx.GraphModule that runs the same operators and returns a tuple. It pickles.\n\n"
       "Raises GraphError where torch.fx cannot say what the graph does, NotImplementedError for a generator."},
      {"__reduce__", reduce, METH_NOARGS, nullptr},
      {"__setstate__", set_state, METH_O, nullptr},
      {nullptr, nullptr, 0, nullptr}};
  return table;
}

PyGetSetDef kProperties[] = {
    {"name", get_name, nullptr, "Its name in the text.", nullptr},
    {"inputs", get_inputs, nullptr, "A list of (number, type).", nullptr},
    {"outputs", get_outputs, nullptr, "A list of the numbers of values.", nullptr},
    {"nodes", get_nodes, nullptr,
     "A list of (operator, numbers of its operands, list of (number, type) of its results, file, line).", nullptr},
    {"constants", get_constants, nullptr, "A tuple of what const<0>, const<1>, ... stand for; the objects themselves.",
     nullptr},
    {"sources", get_sources, nullptr, "Of a captured graph: what each input is in the program; else empty strings.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

constexpr const char* kDoc =
    "Graph(name='graph')\n--\n\n"
    "Tensor operators in order. `str()` of it is its text, which `Graph.parse` reads.\n\n"
    "Inside `with framejit.graph_guard(g):` every operator on this thread becomes a node of g; framejit.Executor runs "
    "it.";

template <class F>
void* slot(F* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

PyTypeObject* graph_type() {
  static PyTypeObject* type = [] {
    static PyType_Slot slots[] = {{Py_tp_dealloc, slot(&destroy)},      {Py_tp_new, slot(&new_object)},
                                  {Py_tp_str, slot(&to_str)},           {Py_tp_repr, slot(&to_repr)},
                                  {Py_tp_methods, methods()},           {Py_tp_getset, kProperties},
                                  {Py_tp_doc, const_cast<char*>(kDoc)}, {0, nullptr}};
    static PyType_Spec spec = {"framejit.Graph", sizeof(GraphObject), 0, Py_TPFLAGS_DEFAULT, slots};
    return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  }();
  return type;
}

Ref make_graph_object(std::shared_ptr<BuiltGraph> graph) {
  PyTypeObject* type = graph_type();
  PyObject* object = type ? type->tp_alloc(type, 0) : nullptr;
  if (object) new (&handle(object)) Handle(std::move(graph));
  return Ref::steal(object);
}

std::shared_ptr<BuiltGraph> graph_of_object(PyObject* object) {
  if (graph_type() && Py_TYPE(object) == graph_type()) return handle(object);
  PyErr_Format(PyExc_TypeError, "expected a framejit.Graph, got %s", Py_TYPE(object)->tp_name);
  return nullptr;
}

}  // namespace framejit::torchlib
