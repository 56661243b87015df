// Attribute reads of tensors. What stands for a tensor while capturing has its class, and answers for what the class
// has from torch, by object's own rules: a __getattribute__ of the program's is for the simulator to call. What lies in
// the tensor's own dictionary is the program's.
#include "tracer/attributes.h"
#include "tracer/proxies.h"
#include "tracer/simulator.h"

namespace framejit {

using graph::GuardKind;
using graph::SourceId;
using graph::SourceKind;

static bool is_forbidden_tensor_attribute(PyObject* name) {
  static const char* const kNames[] = {"grad_fn",
                                       "_grad_fn",
                                       "_backward_hooks",
                                       "_post_accumulate_grad_hooks",
                                       "_version",
                                       "_base",
                                       "output_nr",
                                       "_cdata",
                                       "_is_view",
                                       "__cuda_array_interface__",
                                       "__array_interface__",
                                       "retains_grad",
                                       "__dict__",
                                       "name"};
  for (const char* forbidden : kNames)
    if (PyUnicode_CompareWithASCIIString(name, forbidden) == 0) return true;
  return false;
}

// Whether it is asked for the grad_fn of a leaf, or of what needs no gradient: the guards know that.
static bool has_no_history(Simulator& sim, PyObject* fake, PyObject* name) {
  if (PyUnicode_CompareWithASCIIString(name, "grad_fn") != 0) return false;
  return sim.check(PyObject_GenericGetAttr(fake, name)).get() == Py_None;
}

// Empty: its dictionary, if there is one, does not have it.
static std::optional<SymValue> find_in_tensor_dict(Simulator& sim, PyObject* fake, PyObject* name) {
  World& world = sim.world();
  const Outside* outside = world.find(fake);
  PyObject* dict = instance_dict(outside ? outside->real.get() : fake);
  sim.require_own_dict(fake, dict);
  if (PyObject* shadow = world.shown_of(fake, dict)) {
    if (PyObject* value = PyDict_GetItemWithError(shadow, name)) return SymValue::borrow(value);
    return std::nullopt;
  }
  PyObject* value = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
  if (outside) {
    SourceId dict_source = world.sources().read(SourceKind::kInstanceDict, outside->source);
    if (value)
      return world.wrap(value, world.sources().keyed(SourceKind::kDictItem, dict_source, world.pool().add(name)));
    world.guard(GuardKind::kHasNoKey, dict_source, name);
  } else if (value) {
    return SymValue::borrow(value);
  }
  return std::nullopt;
}

static bool is_of_c_code(PyObject* descriptor) {
  return PyType_IsSubtype(Py_TYPE(descriptor), &PyMethodDescr_Type) || Py_TYPE(descriptor) == &PyGetSetDescr_Type ||
         Py_TYPE(descriptor) == &PyWrapperDescr_Type || Py_TYPE(descriptor) == &PyClassMethodDescr_Type ||
         PyCFunction_Check(descriptor);
}

static SymValue found_in_tensor_class(Simulator& sim, const SymValue& owner, PyObject* name, PyObject* found) {
  PyObject* fake = owner.get();
  World& world = sim.world();
  if (has_no_history(sim, fake, name)) return SymValue::borrow(Py_None);
  if (is_forbidden_tensor_attribute(name))
    sim.stop(StopReason::kUnsupportedAttribute, fmt::format("'{}' of a tensor", PyUnicode_AsUTF8(name)));
  const Outside* outside = world.find(fake);
  if (outside && PyUnicode_CompareWithASCIIString(name, "grad") == 0) {
    Ref grad = sim.check(PyObject_GenericGetAttr(outside->real.get(), name));
    return world.wrap(sim.keep(grad), world.sources().read(SourceKind::kTensorGrad, outside->source));
  }
  if (PyFunction_Check(found) || is_of_c_code(found)) {
    sim.mark_location();
    SymValue value = sim.from_real(sim.check(PyObject_GenericGetAttr(fake, name)));
    if (sim.is_in_backward() && is_data_descriptor(found))
      sim.require_frozen_answer(PyUnicode_AsUTF8(name), value.get());
    return value;
  }
  if (Py_TYPE(found) == &PyMemberDescr_Type)
    sim.stop(StopReason::kUnsupportedAttribute, fmt::format("'{}', a slot of a tensor", PyUnicode_AsUTF8(name)));
  if (Py_TYPE(found)->tp_descr_get) return sim.bind(found, owner);
  return sim.read_from_class(Py_TYPE(fake), name, found);
}

// The rules of PyObject_GenericGetAttr. Empty: no such attribute (no error is set).
static std::optional<SymValue> find_tensor_attr(Simulator& sim, const SymValue& owner, PyObject* name) {
  PyObject* fake = owner.get();
  World::OverlayRead written = sim.world().overlay(fake, name);
  if (written.found && written.value) return SymValue::borrow(written.value);
  PyObject* found = sim.lookup_attribute(Py_TYPE(fake), name);
  if (found) rely_on_descriptor(sim, found);
  if (!found || !is_data_descriptor(found))
    if (auto own = find_in_tensor_dict(sim, fake, name)) return own;
  if (!found) return std::nullopt;
  return found_in_tensor_class(sim, owner, name, found);
}

SymValue load_tensor_attr_without_hooks(Simulator& sim, const SymValue& owner, PyObject* name) {
  if (auto found = find_tensor_attr(sim, owner, name)) return *found;
  no_attribute(sim, owner.get(), name);
}

SymValue load_tensor_attr(Simulator& sim, const SymValue& owner, PyObject* name) {
  PyTypeObject* type = Py_TYPE(owner.get());
  static PyObject* const getattribute = interned("__getattribute__");
  if (PyObject* hook = sim.lookup_type(type, getattribute); hook && PyFunction_Check(hook))
    return load_by_getattribute(sim, hook, owner, name);
  PyObject* getattr = nullptr;
  try {
    if (auto found = find_tensor_attr(sim, owner, name)) return *found;
    getattr = sim.lookup_type(type, interned("__getattr__"));
  } catch (const PythonRaised&) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw;
    PyObject *error_type, *value, *traceback;
    PyErr_Fetch(&error_type, &value, &traceback);
    getattr = sim.lookup_type(type, interned("__getattr__"));
    PyErr_Restore(error_type, value, traceback);
    if (!getattr) throw;
    PyErr_Clear();
  }
  if (!getattr) no_attribute(sim, owner.get(), name);
  if (!PyFunction_Check(getattr)) sim.stop(StopReason::kUnsupportedAttribute, "__getattr__ is no function");
  return sim.call(SymValue::borrow(getattr), {owner, SymValue::borrow(name)});
}

}  // namespace framejit
