// Attribute writes and deletions, by the interpreter's own rules (PyObject_GenericSetAttr, slot_tp_setattro): of
// objects of the trace they are done, of those from outside they are effects.
#include <Python.h>
#include <structmember.h>

#include "tracer/attributes.h"
#include "tracer/library.h"
#include "tracer/proxies.h"
#include "tracer/simulator.h"

namespace framejit {

using graph::SourceId;

namespace {

// A field of the instance that `__slots__` made, and no member that C code reads, or keeps from being written.
bool is_slot(PyObject* descriptor) {
  if (Py_TYPE(descriptor) != &PyMemberDescr_Type) return false;
  const PyTypeObject* owner = reinterpret_cast<PyDescrObject*>(descriptor)->d_type;
  const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member;
  return (owner->tp_flags & Py_TPFLAGS_HEAPTYPE) && member->type == T_OBJECT_EX && !(member->flags & READONLY);
}

// A field of the context of a torch.autograd.Function that keeps what it is given (save_for_backward, mark_dirty). The
// one that takes truth values alone raises for others.
bool is_context_field(Simulator& sim, PyObject* descriptor, SymValue& value) {
  if (Py_TYPE(descriptor) != &PyGetSetDescr_Type) return false;
  auto* owner = reinterpret_cast<PyObject*>(reinterpret_cast<PyDescrObject*>(descriptor)->d_type);
  if (owner != library().autograd_function_base) return false;
  auto is = [&](const char* field) { return PyUnicode_CompareWithASCIIString(PyDescr_NAME(descriptor), field) == 0; };
  return is("to_save") || is("dirty_tensors") || is("non_differentiable") || is("saved_for_forward") ||
         (is("materialize_grads") && PyBool_Check(sim.realise(value)));
}

// What functools.wraps gives a function of the trace; recipes make it again.
bool names_made_function(Simulator& sim, PyObject* obj, PyObject* name, SymValue& value) {
  if (!PyFunction_Check(obj) || !sim.made_constants().count(obj)) return false;
  auto is = [&](const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; };
  if (is("__type_params__")) return PyTuple_CheckExact(sim.realise(value)) && PyTuple_GET_SIZE(value.get()) == 0;
  if (!is("__module__") && !is("__name__") && !is("__qualname__") && !is("__doc__") && !is("__annotations__"))
    return false;
  sim.realise(value);
  return true;
}

}  // namespace

void Simulator::generic_store_attr(const SymValue& owner, PyObject* name, SymValue value) {
  PyObject* obj = owner.get();
  if (is_sealed_context(obj)) stop(StopReason::kUnsupportedAttribute, "the context of a call is changed after it");
  PyObject* descriptor = lookup_type(Py_TYPE(obj), name);
  if (descriptor) rely_on_descriptor(*this, descriptor);
  if (descriptor && Py_TYPE(descriptor) == &PyProperty_Type) {
    Ref setter = check(PyObject_GetAttrString(descriptor, "fset"));
    if (setter.get() == Py_None) {  // the interpreter knows the words of its version
      check_status(Py_TYPE(descriptor)->tp_descr_set(descriptor, obj, Py_None));
      FJ_CHECK(false, "a property without a setter was written");
    }
    call(SymValue(setter), {owner, std::move(value)});
    return;
  }
  if (PyExceptionInstance_Check(obj) && PyUnicode_CompareWithASCIIString(name, "__traceback__") == 0)
    return set_traceback(obj, std::move(value));
  if (names_made_function(*this, obj, name, value)) {
    check_status(PyObject_GenericSetAttr(obj, name, value.get()));
    return;
  }
  const bool context_field = descriptor && is_context_field(*this, descriptor, value);
  if (context_field && world_.is_fresh(obj)) return check_status(PyObject_SetAttr(obj, name, realise(value)));
  if (descriptor && is_data_descriptor(descriptor) && !is_slot(descriptor) && !context_field) {
    PyObject* set = lookup_type(Py_TYPE(descriptor), interned("__set__"));
    if (!set || !PyFunction_Check(set))
      stop(StopReason::kUnsupportedAttribute, fmt::format("write of '{}'", PyUnicode_AsUTF8(name)));
    call(SymValue::borrow(set), {found_in_class(descriptor), owner, std::move(value)});
    return;
  }
  hold(value);
  SourceId source = world_.source_of(obj);
  if (!source.valid()) {
    check_status(PyObject_GenericSetAttr(obj, name, value.get()));
    return;
  }
  const bool data = descriptor && is_data_descriptor(descriptor);
  if (!data && !_PyObject_GetDictPtr(obj)) {
    if (!descriptor) no_attribute(*this, obj, name);
    raise(PyExc_AttributeError,
          fmt::format("'{}' object attribute '{}' is read-only", Py_TYPE(obj)->tp_name, PyUnicode_AsUTF8(name)));
  }
  write_outside_attr(obj, data ? nullptr : instance_dict(obj), name, value);
}

void Simulator::require_own_dict(PyObject* obj, PyObject* dict) {
  if (world_.is_written_through_another(dict, obj))
    stop(StopReason::kUnsupportedAttribute, "two objects with one dictionary, which was written through one of them");
}

void Simulator::write_overlay(PyObject* obj, PyObject* dict, PyObject* name, Ref value) {
  require_own_dict(obj, dict);
  // `self.__dict__ = self` in a class of dictionaries
  if (dict && !PyDict_CheckExact(dict))
    stop(StopReason::kUnsupportedAttribute, "write of an attribute that is an item of a dictionary of a subclass");
  if (dict) world_.note_written_dict(dict, obj);
  world_.write(obj, name, std::move(value));
}

void Simulator::write_outside_attr(PyObject* obj, PyObject* dict, PyObject* name, const SymValue& value) {
  if (dict) require_item_survives(dict, name);
  if (PyObject* shadow = world_.shown_of(obj, dict))
    check_status(PyDict_SetItem(shadow, name, value.get()));
  else
    write_overlay(obj, dict, name, value.obj);
}

namespace {

// torch.nn.Module.__setattr__ for a plain value: no parameter, submodule or buffer of that name, none stored.
bool is_plain_module_write(Simulator& sim, PyObject* module, PyObject* name, SymValue& value) {
  PyObject* obj = value.get();
  const Library& lib = library();
  if (is_module(obj) || (sim.is_tensor(obj) && PyObject_IsInstance(obj, lib.parameter_type) == 1)) return false;
  return !find_in_module(sim, module, name).has_value();
}

// The gradient of a tensor from outside, which is written when the capture ends. The library looks whether it may be.
void store_grad(Simulator& sim, PyObject* fake, PyObject* name, SymValue value) {
  PyObject* grad = sim.realise(value);
  const bool fits = grad == Py_None || (sim.is_tensor(grad) && sim.services().host.is_fake(grad) &&
                                        !sim.services().host.is_level_tensor(grad));
  if (!fits || PyObject_SetAttr(fake, name, grad) < 0) {
    PyErr_Clear();
    sim.stop(StopReason::kUnsupportedAttribute, "write of an unusual 'grad' of a tensor");
  }
  sim.check_status(PyObject_SetAttr(fake, name, Py_None));
  sim.world().write(fake, name, value.obj);
}

// A name that the type does not have lies in the tensor's dictionary: of one from outside it is written when the
// capture ends, one made in the trace takes it along.
void store_tensor_attr(Simulator& sim, const SymValue& owner, PyObject* name, SymValue value) {
  PyObject* fake = owner.get();
  World& world = sim.world();
  PyObject* hook = sim.lookup_type(Py_TYPE(fake), interned("__setattr__"));
  if (world.find(fake) && hook && is_c_method(hook) && !PyUnicode_CompareWithASCIIString(name, "grad"))
    return store_grad(sim, fake, name, std::move(value));
  if (sim.lookup_type(Py_TYPE(fake), name) || !hook || !is_c_method(hook))
    sim.stop(StopReason::kUnsupportedAttribute, fmt::format("write of '{}' of a tensor", PyUnicode_AsUTF8(name)));
  sim.realise(value);
  if (world.find(fake))
    sim.write_outside_attr(fake, instance_dict(world.find(fake)->real.get()), name, value);
  else
    sim.check_status(PyObject_GenericSetAttr(fake, name, value.get()));
}

}  // namespace

void Simulator::store_attr(const SymValue& owner_value, PyObject* name, SymValue value) {
  SymValue owner = owner_value;
  PyObject* obj = realise(owner);
  if (is_tensor(obj)) return store_tensor_attr(*this, owner, name, std::move(value));
  if (is_sim_generator(obj)) stop(StopReason::kUnsupportedAttribute, "write of an attribute of a generator");
  if (PyType_Check(obj)) stop(StopReason::kGlobalMutation, "an attribute of a class is set");
  if (PyModule_Check(obj) && Py_TYPE(obj)->tp_setattro == PyModule_Type.tp_setattro) {
    if (PyObject* in_type = _PyType_Lookup(Py_TYPE(obj), name); in_type && is_data_descriptor(in_type))
      stop(StopReason::kUnsupportedAttribute, fmt::format("write of '{}' of a module", PyUnicode_AsUTF8(name)));
    hold(value);
    PyObject* dict = PyModule_GetDict(obj);
    if (!dict) stop(StopReason::kUnsupportedAttribute, "a module that is not initialised");
    store_global(dict, name, value.obj);
    return;
  }
  PyTypeObject* type = Py_TYPE(obj);
  if (type->tp_setattro == PyObject_GenericSetAttr) return generic_store_attr(owner, name, std::move(value));
  PyObject* hook = lookup_type(type, interned("__setattr__"));
  if (hook == library().object_setattr) return generic_store_attr(owner, name, std::move(value));
  if (hook && hook == library().module_setattr && is_plain_module_write(*this, obj, name, value))
    return generic_store_attr(owner, name, std::move(value));
  if (!hook || !PyFunction_Check(hook))
    stop(StopReason::kUnsupportedAttribute,
         fmt::format("write of '{}' of '{}'", PyUnicode_AsUTF8(name), type->tp_name));
  call(SymValue::borrow(hook), {owner, SymValue::borrow(name), std::move(value)});
}

void Simulator::delete_attr(const SymValue& owner_value, PyObject* name) {
  SymValue owner = owner_value;
  PyObject* obj = realise(owner);
  PyObject* hook = lookup_type(Py_TYPE(obj), interned("__delattr__"));
  if (hook && PyFunction_Check(hook)) {
    call(SymValue::borrow(hook), {owner, SymValue::borrow(name)});
    return;
  }
  generic_delete_attr(obj, name);
}

// The rules of PyObject_GenericSetAttr.
void Simulator::generic_delete_attr(PyObject* obj, PyObject* name) {
  if (is_tensor(obj) || PyType_Check(obj) || PyModule_Check(obj) || is_sim_generator(obj))
    stop(StopReason::kUnsupportedAttribute, fmt::format("deletion of '{}'", PyUnicode_AsUTF8(name)));
  if (world_.is_fresh(obj)) return check_status(PyObject_GenericSetAttr(obj, name, nullptr));
  if (lookup_type(Py_TYPE(obj), name)) stop(StopReason::kUnsupportedAttribute, "deletion of what a class has");
  // What the error says depends on the version, and on 3.11 on how the object keeps its attributes.
  if (!generic_find_attr(obj, name))
    stop(StopReason::kUnsupportedAttribute,
         fmt::format("deletion of '{}', which is not there", PyUnicode_AsUTF8(name)));
  PyObject* dict = instance_dict(obj);
  if (dict) require_item_survives(dict, name);
  PyObject* shadow = world_.shown_of(obj, dict);
  if (!shadow) return write_overlay(obj, dict, name, {});
  refuse_hole_after_clear(shadow);
  check_status(PyDict_DelItem(shadow, name));
  world_.note_removed(shadow, World::Removal::kDeleted, name);
}

}  // namespace framejit
