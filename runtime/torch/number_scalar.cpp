#include "runtime/torch/number_scalar.h"

#include <torch/csrc/utils/python_symnode.h>

#include <cstring>

#include "base/once.h"
#include "runtime/torch/trace_stop.h"

namespace framejit::torchlib {
namespace {

// The node of a torch.SymFloat, as torch.fx.experimental.sym_node.SymNode is one.
struct NumberNode {
  PyObject_HEAD uint32_t number;
};

PyObject* answer_true(PyObject*, PyObject*) { Py_RETURN_TRUE; }
PyObject* answer_false(PyObject*, PyObject*) { Py_RETURN_FALSE; }

// All that is not one of the methods looks at the number, or computes with it.
PyObject* get_attribute(PyObject* self, PyObject* name) {
  if (PyObject* found = PyObject_GenericGetAttr(self, name)) return found;
  PyErr_Clear();
  Ref args = Ref::steal(Py_BuildValue("(ss)", "DataDependentValue", "a function of torch looks at a number"));
  if (args) PyErr_SetObject(trace_stop_type(), args.get());
  return nullptr;
}

void free_node(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyObject* node_type() {
  return once_under_lock([] {
    static PyMethodDef methods[] = {{"is_float", answer_true, METH_NOARGS, nullptr},
                                    {"is_int", answer_false, METH_NOARGS, nullptr},
                                    {"is_bool", answer_false, METH_NOARGS, nullptr},
                                    {"is_nested_int", answer_false, METH_NOARGS, nullptr},
                                    {"is_symbolic", answer_true, METH_NOARGS, nullptr},
                                    {"is_constant", answer_false, METH_NOARGS, nullptr},
                                    {nullptr, nullptr, 0, nullptr}};
    static PyType_Slot slots[] = {{Py_tp_methods, methods},
                                  {Py_tp_getattro, reinterpret_cast<void*>(&get_attribute)},
                                  {Py_tp_dealloc, reinterpret_cast<void*>(&free_node)},
                                  {0, nullptr}};
    static PyType_Spec spec = {"framejit._NumberNode", sizeof(NumberNode), 0, Py_TPFLAGS_DEFAULT, slots};
    return PyType_FromSpec(&spec);
  });
}

}  // namespace

Ref make_number_scalar(graph::ValueId number) {
  PyObject* type = node_type();
  if (!type) return nullptr;
  Ref node = Ref::steal(reinterpret_cast<PyTypeObject*>(type)->tp_alloc(reinterpret_cast<PyTypeObject*>(type), 0));
  if (!node) return nullptr;
  reinterpret_cast<NumberNode*>(node.get())->number = number.value;
  auto* scalar_type = reinterpret_cast<PyTypeObject*>(torch::get_symfloat_class().ptr());
  Ref empty = Ref::steal(PyTuple_New(0));
  Ref scalar = Ref::steal(empty ? PyBaseObject_Type.tp_new(scalar_type, empty.get(), nullptr) : nullptr);
  const bool filled = scalar && PyObject_SetAttrString(scalar.get(), "node", node.get()) == 0;
  return filled ? scalar : Ref();
}

graph::ValueId number_of_scalar(const c10::IValue& scalar) {
  if (!scalar.isSymFloat()) return {};
  const c10::SymNode node = scalar.toSymFloat().toSymNodeImpl();
  const auto* of_python = dynamic_cast<const torch::impl::PythonSymNodeImpl*>(node.get());
  if (!of_python) return {};
  pybind11::gil_scoped_acquire gil;
  PyObject* object = of_python->getPyObj().ptr();
  const bool known = reinterpret_cast<PyObject*>(Py_TYPE(object)) == node_type();
  return known ? graph::ValueId(reinterpret_cast<NumberNode*>(object)->number) : graph::ValueId();
}

}  // namespace framejit::torchlib
