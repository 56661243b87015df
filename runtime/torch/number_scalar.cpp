#include "runtime/torch/number_scalar.h"

#include <torch/csrc/utils/python_symnode.h>

#include <type_traits>

#include "base/once.h"
#include "runtime/torch/trace_stop.h"

namespace framejit::torchlib {
namespace {

void refuse() {
  Ref args = Ref::steal(Py_BuildValue("(ss)", "DataDependentValue", "a number of the graph is looked at"));
  if (args) PyErr_SetObject(trace_stop_type(), args.get());
}

template <class Result, class... Args>
Result refuse_slot(Args...) {
  refuse();
  if constexpr (std::is_pointer_v<Result>) {
    return nullptr;
  } else {
    return -1;
  }
}

void free_object(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

// All that a float has a slot for.
PyObject* number_type() {
  return once_under_lock([] {
    using Object = PyObject*;
    auto* unary = reinterpret_cast<void*>(&refuse_slot<Object, Object>);
    auto* binary = reinterpret_cast<void*>(&refuse_slot<Object, Object, Object>);
    auto* ternary = reinterpret_cast<void*>(&refuse_slot<Object, Object, Object, Object>);
    static PyType_Slot slots[] = {
        {Py_nb_add, binary},
        {Py_nb_subtract, binary},
        {Py_nb_multiply, binary},
        {Py_nb_remainder, binary},
        {Py_nb_divmod, binary},
        {Py_nb_power, ternary},
        {Py_nb_negative, unary},
        {Py_nb_positive, unary},
        {Py_nb_absolute, unary},
        {Py_nb_bool, reinterpret_cast<void*>(&refuse_slot<int, Object>)},
        {Py_nb_int, unary},
        {Py_nb_float, unary},
        {Py_nb_index, unary},
        {Py_nb_floor_divide, binary},
        {Py_nb_true_divide, binary},
        {Py_tp_richcompare, reinterpret_cast<void*>(&refuse_slot<Object, Object, Object, int>)},
        {Py_tp_hash, reinterpret_cast<void*>(&refuse_slot<Py_hash_t, Object>)},
        {Py_tp_repr, unary},
        {Py_tp_str, unary},
        {Py_tp_getattro, binary},
        {Py_tp_dealloc, reinterpret_cast<void*>(&free_object)},
        {0, nullptr}};
    static PyType_Spec spec = {"framejit._Number", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT, slots};
    return PyType_FromSpec(&spec);
  });
}

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
  refuse();
  return nullptr;
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
                                  {Py_tp_dealloc, reinterpret_cast<void*>(&free_object)},
                                  {0, nullptr}};
    static PyType_Spec spec = {"framejit._NumberNode", sizeof(NumberNode), 0, Py_TPFLAGS_DEFAULT, slots};
    return PyType_FromSpec(&spec);
  });
}

}  // namespace

Ref make_number_object() {
  auto* type = reinterpret_cast<PyTypeObject*>(number_type());
  return Ref::steal(type ? type->tp_alloc(type, 0) : nullptr);
}

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
