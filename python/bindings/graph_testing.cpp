#include "python/bindings/graph_testing.h"

#include <string>
#include <type_traits>
#include <vector>

#include "base/py_ref.h"
#include "codegen/kernels/fuse.h"
#include "graph/expression.h"
#include "graph/infer.h"
#include "graph/op.h"
#include "graph/parse.h"

namespace framejit {
namespace {

using graph::ComputeType;
using graph::Expression;

bool find(const char* name, graph::OpId* op) {
  *op = graph::find_op(name);
  if (!op->valid()) PyErr_Format(PyExc_ValueError, "expected an operator of graph/ops, got %s", name);
  return op->valid();
}

// The arguments of a call, with the memory that they point to.
template <class T>
class Arguments {
 public:
  // None, a number, a text, or a list of numbers.
  bool read(PyObject* list) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
      auto& argument = arguments_.emplace_back();
      auto& numbers = numbers_.emplace_back();
      PyObject* item = PyList_GET_ITEM(list, i);
      if (item == Py_None) continue;
      argument.given = true;
      if (PyUnicode_Check(item)) {
        const char* text = PyUnicode_AsUTF8(item);
        if (!text) return false;
        argument.text = text;
      } else if (PyList_Check(item)) {
        for (Py_ssize_t n = 0; n < PyList_GET_SIZE(item); ++n) numbers.push_back(number(PyList_GET_ITEM(item, n)));
      } else {
        numbers.push_back(number(item));
      }
      if (PyErr_Occurred()) return false;
    }
    for (size_t i = 0; i < arguments_.size(); ++i) arguments_[i].numbers = numbers_[i];
    return true;
  }

  std::span<const graph::ExpressionArgument<T>> all() const { return arguments_; }

 private:
  static T number(PyObject* value) {
    if constexpr (std::is_same_v<T, double>) return PyFloat_AsDouble(value);
    return static_cast<T>(PyLong_AsLongLong(value));
  }

  std::vector<graph::ExpressionArgument<T>> arguments_;
  std::vector<std::vector<T>> numbers_;
};

PyObject* to_python(double value) { return PyFloat_FromDouble(value); }
PyObject* to_python(int64_t value) { return PyLong_FromLongLong(value); }

template <class T>
PyObject* evaluate_all(const Expression& expression, PyObject* list, size_t count) {
  Arguments<T> arguments;
  if (!arguments.read(list)) return nullptr;
  Ref results = Ref::steal(PyList_New(0));
  for (size_t i = 0; i < (expression.reduces ? 1 : count); ++i) {
    Ref number = Ref::steal(to_python(graph::evaluate(expression, arguments.all(), i, count)));
    if (!number || PyList_Append(results.get(), number.get()) != 0) return nullptr;
  }
  return results.release();
}

}  // namespace

PyObject* expression(PyObject*, PyObject* args) {
  const char* name;
  graph::OpId op;
  if (!PyArg_ParseTuple(args, "s", &name) || !find(name, &op)) return nullptr;
  const Expression* found = graph::expression_of(op);
  if (!found) return Py_BuildValue("z", graph::why_no_expression(op));
  Ref types = Ref::steal(PyList_New(0));
  for (auto [type, text] : {std::pair{ComputeType::kFloating, "float"}, std::pair{ComputeType::kInteger, "int"},
                            std::pair{ComputeType::kBoolean, "bool"}}) {
    Ref item = Ref::steal(PyUnicode_FromString(text));
    if (found->holds_for(type) && PyList_Append(types.get(), item.get()) != 0) return nullptr;
  }
  return Py_BuildValue("(OO)", types.get(), found->reduces ? Py_True : Py_False);
}

PyObject* evaluate_expression(PyObject*, PyObject* args) {
  const char* name;
  PyObject* list;
  Py_ssize_t count;
  int integers;
  graph::OpId op;
  if (!PyArg_ParseTuple(args, "sO!np", &name, &PyList_Type, &list, &count, &integers) || !find(name, &op))
    return nullptr;
  const Expression* found = graph::expression_of(op);
  if (!found) return PyErr_Format(PyExc_ValueError, "expected an operator with an expression, got %s", name);
  size_t schema = graph::op_info(op).parsed.args.size();
  if (static_cast<size_t>(PyList_GET_SIZE(list)) != schema)
    return PyErr_Format(PyExc_ValueError, "%s: expected %zu arguments, got %zd", name, schema, PyList_GET_SIZE(list));
  return integers ? evaluate_all<int64_t>(*found, list, static_cast<size_t>(count))
                  : evaluate_all<double>(*found, list, static_cast<size_t>(count));
}

PyObject* has_rule(PyObject*, PyObject* args) {
  const char* name;
  if (!PyArg_ParseTuple(args, "s", &name)) return nullptr;
  graph::OpId op = graph::find_op(name);
  return PyBool_FromLong(op.valid() && graph::has_infer_rule(op));
}

PyObject* texts_of_groups(PyObject* text, std::string (*text_of)(const codegen::FusedGroup&)) {
  const char* utf8 = PyUnicode_AsUTF8(text);
  if (!utf8) return nullptr;
  auto parsed = graph::parse_graph(utf8);
  if (!parsed.ok()) {
    PyErr_SetString(PyExc_ValueError, parsed.error().to_string().c_str());
    return nullptr;
  }
  const graph::Graph& graph = parsed.value();
  Ref list = Ref::steal(PyList_New(0));
  for (const codegen::FusedGroup& group : codegen::fuse(graph, graph.outputs(), {}, true).groups) {
    Ref item = Ref::steal(PyUnicode_FromString(text_of(group).c_str()));
    if (!item || PyList_Append(list.get(), item.get()) < 0) return nullptr;
  }
  return list.release();
}

PyObject* kernels_of(PyObject*, PyObject* text) {
  return texts_of_groups(text, [](const codegen::FusedGroup& group) { return codegen::to_string(group.kernel); });
}

}  // namespace framejit
