// Recipes of exceptions, and the fields of instances that are set once they are made.
#include "tracer/recipes.h"
// After Python.h, which it does not include before 3.12.
#include <structmember.h>

#include <algorithm>

#include "tracer/type_slots.h"

namespace framejit {

using graph::EffectKind;
using graph::RecipeId;

namespace {

// Whether a call of the class, or its __new__ or __init__, is code in Python.
bool is_made_by_python(PyTypeObject* type, PyObject* native) {
  PyObject* call = _PyType_Lookup(Py_TYPE(type), interned("__call__"));
  if (call && PyFunction_Check(call)) return true;
  for (const char* name : {"__new__", "__init__"}) {
    PyObject* found = _PyType_Lookup(type, interned(name));
    if (found && Py_TYPE(found) == &PyStaticMethod_Type) found = native;
    if (found == native || (found && PyFunction_Check(found))) return true;
  }
  return false;
}

// Fields that C code makes for each read, and tuples that it makes of its arguments, are compared by what they hold.
bool holds_same(PyObject* value, PyObject* plain) {
  if (value == plain) return true;
  if (!value || !plain || Py_TYPE(value) != Py_TYPE(plain)) return false;
  if (PyTuple_CheckExact(value)) {
    const Py_ssize_t count = PyTuple_GET_SIZE(value);
    return count == PyTuple_GET_SIZE(plain) &&
           std::equal(&PyTuple_GET_ITEM(value, 0), &PyTuple_GET_ITEM(value, count), &PyTuple_GET_ITEM(plain, 0));
  }
  return PyLong_CheckExact(value) && PyObject_RichCompareBool(value, plain, Py_EQ) == 1;
}

Ref read_member(PyObject* member, PyObject* obj) {
  Ref value = Ref::steal(PyMemberDescr_Type.tp_descr_get(member, obj, nullptr));
  if (!value) PyErr_Clear();
  return value;
}

}  // namespace

// Values in __slots__ are set once the object exists.
void RecipeBuilder::add_slot_effects(PyObject* obj, RecipeId recipe) {
  PyObject* mro = Py_TYPE(obj)->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    auto* type = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) continue;
    PyObject *name, *member;
    for (Py_ssize_t pos = 0; PyDict_Next(type->tp_dict, &pos, &name, &member);) {
      if (Py_TYPE(member) != &PyMemberDescr_Type) continue;
      if (Ref value = read_member(member, obj)) add_slot_effect(recipe, member, value);
    }
  }
}

void RecipeBuilder::add_slot_effect(RecipeId recipe, PyObject* member, const Ref& value) {
  slot_effects_.push_back({EffectKind::kSetSlot, recipe, constant(member), describe_object(sim_.keep(value)), {}});
}

// Fields of its C types in which it differs from `plain`, which is as the recipe makes it.
void RecipeBuilder::add_field_effects(PyObject* obj, RecipeId recipe, PyObject* plain) {
  for (PyTypeObject* type = native_base(Py_TYPE(obj)); type; type = type->tp_base)
    for (const PyMemberDef* field = type->tp_members; field && field->name; ++field) {
      if (field->flags & READONLY) continue;
      PyObject* member = sim_.keep(Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), field->name)));
      if (!member || Py_TYPE(member) != &PyMemberDescr_Type) cannot_rebuild(obj);
      Ref value = read_member(member, obj);
      if (holds_same(value.get(), read_member(member, plain).get())) continue;
      if (!value) cannot_rebuild(obj);
      add_slot_effect(recipe, member, value);
    }
}

// Made by the __new__ of the C type below, so that no __init__ in Python runs again.
RecipeId RecipeBuilder::describe_exception(PyObject* obj) {
  if (const BreakPoint* raised = sim_.raised_at(obj)) sim_.stop_before_raise(StopReason::kCannotRebuild, *raised);
  PyTypeObject* type = Py_TYPE(obj);
  auto* native = reinterpret_cast<PyObject*>(native_base(type));
  PyObject* reduced = sim_.keep(Ref::steal(PyObject_CallMethod(native, "__reduce__", "O", obj)));
  PyErr_Clear();
  if (!reduced) cannot_rebuild(obj);
  // Not obj.args: OSError takes the file name out of them, and gives it here.
  PyObject* args = PyTuple_GET_ITEM(reduced, 1);
  const bool python_made = is_made_by_python(type, native);
  // Those with a __new__ of their own take other arguments there.
  const newfunc plain_new = reinterpret_cast<PyTypeObject*>(PyExc_BaseException)->tp_new;
  if (python_made && reinterpret_cast<PyTypeObject*>(native)->tp_new != plain_new) cannot_rebuild(obj);
  std::vector<RecipeId> ids;
  if (python_made) ids.push_back(constant(reinterpret_cast<PyObject*>(type)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) ids.push_back(describe_object(PyTuple_GET_ITEM(args, i)));
  PyObject* made_by = reinterpret_cast<PyObject*>(type);
  if (python_made) made_by = sim_.keep(Ref::steal(PyObject_GetAttrString(native, "__new__")));
  // As the recipe makes it, without what was given by name or set later.
  Ref plain = Ref::steal(python_made ? plain_new(type, args, nullptr) : PyObject_Call(made_by, args, nullptr));
  PyErr_Clear();
  if (!plain || Py_TYPE(plain.get()) != type) cannot_rebuild(obj);
  RecipeId id = call(made_by, ids);
  memo_[obj] = id;
  PyObject *name, *value;
  if (PyTuple_GET_SIZE(reduced) > 2 && PyDict_Check(PyTuple_GET_ITEM(reduced, 2)))
    for (Py_ssize_t pos = 0; PyDict_Next(PyTuple_GET_ITEM(reduced, 2), &pos, &name, &value);)
      add_attribute(id, name, value);
  if (Ref cause = Ref::steal(PyException_GetCause(obj))) {
    add_attribute(id, interned("__cause__"), cause.get());  // which sets the next one
    const bool suppressed = reinterpret_cast<PyBaseExceptionObject*>(obj)->suppress_context;
    add_attribute(id, interned("__suppress_context__"), suppressed ? Py_True : Py_False);
  }
  add_slot_effects(obj, id);
  add_field_effects(obj, id, plain.get());
  return id;
}

}  // namespace framejit
