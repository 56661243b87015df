// Recipes of the iterators of C.
#include "tracer/recipes.h"

namespace framejit {

using graph::RecipeId;
using graph::RecipeKind;

namespace {

// What an iterator of C goes over: the first container that it refers to. Not a tuple: one over a dictionary's items
// keeps a tuple, to be used again, and an ended one refers to nothing else.
PyObject* iterated(PyObject* iterator) {
  PyObject* container = nullptr;
  auto visit = [](PyObject* obj, void* found) {
    const bool is_container = PyDict_Check(obj) || PyAnySet_Check(obj) || PyList_Check(obj);
    if (is_container) *static_cast<PyObject**>(found) = obj;
    return static_cast<int>(is_container);
  };
  if (PyObject_IS_GC(iterator)) Py_TYPE(iterator)->tp_traverse(iterator, visit, &container);
  return container;
}

// Of an iterator over `items` that has not ended; -1 with an error set: they have changed.
Py_ssize_t taken(PyObject* iterator, PyObject* items) {
  Ref reduced = Ref::steal(PyObject_CallMethod(iterator, "__reduce__", nullptr));
  if (!reduced) return -1;
  if (PyTuple_GET_SIZE(reduced.get()) > 2) return PyLong_AsSsize_t(PyTuple_GET_ITEM(reduced.get(), 2));
  return PyObject_Size(items) - PyObject_Size(PyTuple_GET_ITEM(PyTuple_GET_ITEM(reduced.get(), 1), 0));
}

struct View {
  const char* iterator;
  const char* of_dict;  // null: the container itself
};

constexpr View kViews[] = {
    {"dict_keyiterator", nullptr},
    {"dict_valueiterator", "values"},
    {"dict_itemiterator", "items"},
    {"set_iterator", nullptr},
};

}  // namespace

// An iterator notices that what it goes over has changed: it must go over the container itself, not over what is left.
std::optional<RecipeId> RecipeBuilder::describe_live_iterator(PyObject* obj) {
  PyObject* items = iterated(obj);
  if (!items) return std::nullopt;
  PyObject *container = items, *view = nullptr;
  if (const Simulator::Snapshot* snapshot = sim_.snapshot(items)) {
    container = snapshot->container;
    view = snapshot->view;
  }
  for (const View& row : kViews)
    if (!view && !strcmp(Py_TYPE(obj)->tp_name, row.iterator))
      view = row.of_dict ? _PyType_Lookup(&PyDict_Type, interned(row.of_dict)) : builtin("iter");
  if (!view) return std::nullopt;
  const Py_ssize_t count = taken(obj, items);
  if (count < 0) PyErr_Clear();
  if (count < 0 || has_other_keys(container)) cannot_rebuild(obj);
  RecipeId iterator = call(builtin("iter"), {call(view, {describe_object(container)})});
  RecipeId id = capture_.recipes.reserve();
  capture_.recipes.set(id, {RecipeKind::kAdvance, static_cast<uint32_t>(count), {}, {}, 0, 0}, {iterator});
  return id;
}

// Of a dictionary or set of the program: what the effects do to it would end its iterators.
bool RecipeBuilder::has_other_keys(PyObject* container) const {
  const Outside* outside = world_.find(container);
  if (!outside || (outside->kind != OutsideKind::kDict && outside->kind != OutsideKind::kSet)) return false;
  if (world_.removals(container)) return true;
  Ref before = Ref::steal(PySequence_Tuple(outside->original.get())), now = Ref::steal(PySequence_Tuple(container));
  if (!before || !now) PyErr_Clear();
  bool same = before && now && PyTuple_GET_SIZE(before.get()) == PyTuple_GET_SIZE(now.get());
  for (Py_ssize_t i = 0; same && i < PyTuple_GET_SIZE(now.get()); ++i)
    same = PyTuple_GET_ITEM(before.get(), i) == PyTuple_GET_ITEM(now.get(), i);
  return !same;
}

// C iterators say how to make them again.
RecipeId RecipeBuilder::describe_iterator(PyObject* obj) {
  static const char* const kTypes[] = {"list_iterator",
                                       "tuple_iterator",
                                       "range_iterator",
                                       "list_reverseiterator",
                                       "dict_keyiterator",
                                       "dict_valueiterator",
                                       "dict_itemiterator",
                                       "set_iterator",
                                       "str_iterator",
                                       "str_ascii_iterator",
                                       "bytes_iterator",
                                       "enumerate",
                                       "zip",
                                       "map",
                                       "filter",
                                       "reversed",
                                       "longrange_iterator",
                                       "callable_iterator"};
  bool known = false;
  for (const char* name : kTypes) known |= !strcmp(Py_TYPE(obj)->tp_name, name);
  if (auto live = describe_live_iterator(obj)) return *live;
  const bool has_ended = !strcmp(Py_TYPE(obj)->tp_name, "odict_iterator") && !iterated(obj);
  if (!known && !has_ended) cannot_rebuild(obj);
  Ref reduced = Ref::steal(PyObject_CallMethod(obj, "__reduce__", nullptr));
  if (!reduced) {
    PyErr_Clear();
    cannot_rebuild(obj);
  }
  PyObject* tuple = sim_.keep(reduced);
  PyObject* args = PyTuple_GET_ITEM(tuple, 1);
  std::vector<RecipeId> ids;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) ids.push_back(describe_object(PyTuple_GET_ITEM(args, i)));
  RecipeId id = call(PyTuple_GET_ITEM(tuple, 0), ids);
  if (PyTuple_GET_SIZE(tuple) > 2 && PyTuple_GET_ITEM(tuple, 2) != Py_None) {
    RecipeId with_state = capture_.recipes.reserve();
    capture_.recipes.set(with_state, {RecipeKind::kSetState}, {id, describe_object(PyTuple_GET_ITEM(tuple, 2))});
    id = with_state;
  }
  return id;
}

}  // namespace framejit
