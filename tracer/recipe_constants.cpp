// Recipes of what is a constant unless it holds something of the call: plain data, sets of it, descriptors, and types
// with arguments.
#include <algorithm>

#include "tracer/recipes.h"
#include "tracer/set_table.h"
#include "tracer/simulator.h"

namespace framejit {

using graph::Recipe;
using graph::RecipeId;
using graph::RecipeKind;

// Whether plain data is, or has within it, an object that was found: what is made anew from it holds the one of its
// call.
bool RecipeBuilder::holds_found(PyObject* plain) const {
  return any_within(plain, [this](PyObject* each) { return world_.place_of(each).valid(); });
}

// Whether each replay may give the same object.
bool RecipeBuilder::is_constant(PyObject* obj) const {
  if (is_plain_data(obj)) return !holds_found(obj);
  return is_identity_constant(obj) && !sim_.made_constants().count(obj);
}

// Where the items are the same objects in each replay, the table is copied, which holds them; else the set is filled
// again, one item after another. Its order comes from addresses then, which no program can know, and so does that of
// classes and functions, which the program may drop, and of numbers that equal nothing (since 3.10).
RecipeId RecipeBuilder::describe_set(PyObject* set) {
  PyObject* list = sim_.keep(Ref::steal(PySequence_List(set)));
  std::vector<PyObject*> items(PySequence_Fast_ITEMS(list), PySequence_Fast_ITEMS(list) + PyList_GET_SIZE(list));
  auto is_kept = [&](PyObject* item) {
    if (is_plain_data(item)) return !any_within(item, is_nan);
    const bool dies = Py_TYPE(item)->tp_hash == PyBaseObject_Type.tp_hash && worth_watching(item);
    return is_identity_constant(item) && !dies && !sim_.made_constants().count(item);
  };
  if (!std::all_of(items.begin(), items.end(), is_kept))
    return build(set, PyFrozenSet_CheckExact(set) ? RecipeKind::kFrozenSet : RecipeKind::kSet, items);
  Recipe recipe{RecipeKind::kSetCopy};
  recipe.object = world_.pool().add(sim_.keep(copy_set(set)));
  std::vector<RecipeId> places;
  for (PyObject* item : items)
    if (holds_found(item)) places.insert(places.end(), {constant(item), describe_object(item)});
  const RecipeId id = capture_.recipes.reserve();
  capture_.recipes.set(id, recipe, places);
  return id;
}

// list[int] and int | str are new objects each time.
RecipeId RecipeBuilder::describe_type_form(PyObject* form) {
  auto part = [&](const char* name) { return sim_.keep(sim_.check(PyObject_GetAttrString(form, name))); };
  PyObject* arguments = part("__args__");
  if (is_generic_alias(form)) {
    PyObject* unpacked = PyObject_HasAttrString(form, "__unpacked__") ? part("__unpacked__") : Py_False;
    if (unpacked != Py_False) cannot_rebuild(form);
    return call(reinterpret_cast<PyObject*>(Py_TYPE(form)),
                {describe_object(part("__origin__")), describe_object(arguments)});
  }
  Ref module = sim_.check(PyImport_ImportModule("operator"));
  PyObject* join = sim_.keep(sim_.check(PyObject_GetAttrString(module.get(), "or_")));
  RecipeId joined = describe_object(PyTuple_GET_ITEM(arguments, 0));
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(arguments); ++i)
    joined = call(join, {joined, describe_object(PyTuple_GET_ITEM(arguments, i))});
  return joined;
}

// A property, staticmethod or classmethod that the trace made around a function.
RecipeId RecipeBuilder::describe_descriptor(PyObject* descriptor) {
  std::vector<RecipeId> parts;
  auto part = [&](const char* name) { return sim_.keep(sim_.check(PyObject_GetAttrString(descriptor, name))); };
  if (Py_TYPE(descriptor) != &PyProperty_Type) {
    RecipeId id = call(reinterpret_cast<PyObject*>(Py_TYPE(descriptor)), {describe_object(part("__func__"))});
    PyObject** attributes = _PyObject_GetDictPtr(descriptor);
    if (attributes && *attributes) add_attributes(id, descriptor, *attributes);
    return id;
  }
  for (const char* name : {"fget", "fset", "fdel"}) parts.push_back(describe_object(part(name)));
  // A text that is the getter's own is taken from there.
  PyObject *getter = part("fget"), *text = part("__doc__");
  Ref own = getter == Py_None ? Ref() : sim_.check(PyObject_GetAttrString(getter, "__doc__"));
  if (text != own.get() && text != Py_None) parts.push_back(describe_object(text));
  return call(reinterpret_cast<PyObject*>(&PyProperty_Type), parts);
}

}  // namespace framejit
