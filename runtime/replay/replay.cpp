#include "runtime/replay/replay.h"

#include "base/check.h"
#include "runtime/python_util.h"
#include "tracer/set_table.h"

namespace framejit::runtime {

using graph::Recipe;
using graph::RecipeId;
using graph::RecipeKind;

ReplayPlan::ReplayPlan(const graph::Capture& capture, const ConstTable& pool) : capture_(capture), pool_(pool) {
  for (size_t i = 0; i < capture.recipes.size(); ++i)
    if (capture.recipes.at(RecipeId(i)).kind == RecipeKind::kSource) source_recipes_.push_back(RecipeId(i));
  if (capture.exit == graph::ExitKind::kReturn && capture.effects.empty() && capture.returned.valid()) {
    const Recipe& returned = capture.recipes.at(capture.returned);
    if (returned.kind == RecipeKind::kOutput) only_output_ = static_cast<int>(returned.index);
  }
}

Replay::Replay(const ReplayPlan& plan, const GuardProgram& guards)
    : plan_(plan), recipes_(plan.capture().recipes), values_(recipes_.size(), nullptr) {
  for (RecipeId id : plan.source_recipes()) {
    PyObject* value = guards.value(recipes_.at(id).source);
    Py_XINCREF(value);
    values_[id.index()] = value;
  }
  for (graph::ConstId id : plan.watched()) watched_.push_back(Ref::borrow(plan.pool().at(id)));
}

Replay::~Replay() {
  for (PyObject* value : values_) Py_XDECREF(value);
  for (PyObject* output : outputs_) Py_XDECREF(output);
}

void Replay::set_outputs(PyObject** outputs, size_t count) { outputs_.assign(outputs, outputs + count); }

Ref Replay::build(RecipeId id) {
  if (!id.valid()) return nullptr;
  PyObject* value = make(id);
  if (!value || !fill_pending()) return nullptr;
  return Ref::borrow(value);
}

PyObject* Replay::part(const Recipe& recipe, uint32_t i) { return make(recipes_.part(recipe, i)); }

// Borrowed from values_. What can contain itself comes back empty, to be filled later.
PyObject* Replay::make(RecipeId id) {
  if (PyObject* made = values_[id.index()]) return made;
  Ref value = make_new(id, recipes_.at(id));
  if (!value) return nullptr;
  // It may contain itself: what was filled for it has made it then, and has it.
  PyObject*& made = values_[id.index()];
  if (!made) made = value.release();
  return made;
}

// Fills what is pending before a value is made that needs it whole. Sets `made` if that has made the value itself.
bool Replay::fill_pending_for(RecipeId id, Ref* made) {
  const bool filled = fill_pending();
  if (filled) *made = Ref::borrow(values_[id.index()]);
  return filled;
}

static Ref advance(Ref iterator, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    Ref item = Ref::steal(Py_TYPE(iterator.get())->tp_iternext(iterator.get()));
    if (!item && PyErr_Occurred()) return nullptr;
    FJ_CHECK(item, "an iterator ended at {} of {} items", i, count);
  }
  return iterator;
}

Ref Replay::make_new(RecipeId id, const Recipe& recipe) {
  Ref shell;
  switch (recipe.kind) {
    case RecipeKind::kUnbound:
    case RecipeKind::kSource:
      return nullptr;
    case RecipeKind::kConst:
      return Ref::borrow(plan_.pool().at(recipe.object));
    case RecipeKind::kOutput:
      FJ_CHECK(recipe.index < outputs_.size(), "output {} of {}", recipe.index, outputs_.size());
      return Ref::borrow(outputs_[recipe.index]);
    case RecipeKind::kNumber:
      FJ_CHECK(recipe.index < outputs_.size(), "output {} of {}", recipe.index, outputs_.size());
      return Ref::steal(PyObject_CallMethod(outputs_[recipe.index], "item", nullptr));
    case RecipeKind::kTuple:
      return make_tuple(recipe);
    case RecipeKind::kTypedTuple: {
      Ref items = make_tuple(recipe);
      Ref args = items ? Ref::steal(PyTuple_Pack(1, items.get())) : nullptr;
      return args ? new_instance(reinterpret_cast<PyTypeObject*>(plan_.pool().at(recipe.object)), args.get()) : nullptr;
    }
    case RecipeKind::kFrozenSet: {
      Ref made;
      Ref items = make_tuple(recipe);
      if (!items || !fill_pending_for(id, &made) || made) return made;
      return Ref::steal(PyFrozenSet_New(items.get()));
    }
    case RecipeKind::kSetCopy:
      return make_set_copy(recipe);
    case RecipeKind::kSlice:
      if (!make_parts(recipe, 0, recipe.part_count)) return nullptr;
      return Ref::steal(PySlice_New(part(recipe, 0), part(recipe, 1), part(recipe, 2)));
    case RecipeKind::kBoundMethod:
      if (!make_parts(recipe, 0, recipe.part_count)) return nullptr;
      return Ref::steal(PyMethod_New(part(recipe, 0), part(recipe, 1)));
    case RecipeKind::kFunction:
      return make_function(recipe);
    case RecipeKind::kCall:
      return make_call(id, recipe);
    case RecipeKind::kSetState: {
      Ref made;
      if (!make_parts(recipe, 0, 2) || !fill_pending_for(id, &made) || made) return made;
      Ref done = Ref::steal(PyObject_CallMethod(part(recipe, 0), "__setstate__", "O", part(recipe, 1)));
      return done ? Ref::borrow(part(recipe, 0)) : nullptr;
    }
    case RecipeKind::kAdvance: {
      Ref made;
      if (!make_parts(recipe, 0, 1) || !fill_pending_for(id, &made) || made) return made;
      return advance(Ref::borrow(part(recipe, 0)), recipe.index);
    }
    case RecipeKind::kList:
      shell = Ref::steal(PyList_New(0));
      break;
    case RecipeKind::kDict:
      shell = Ref::steal(PyDict_New());
      break;
    case RecipeKind::kSet:
      shell = Ref::steal(PySet_New(nullptr));
      break;
    case RecipeKind::kCell:
      shell = Ref::steal(PyCell_New(nullptr));
      break;
    case RecipeKind::kObject:
    case RecipeKind::kTypedDict:
    case RecipeKind::kTypedList:
      shell = new_instance(reinterpret_cast<PyTypeObject*>(plan_.pool().at(recipe.object)));
      break;
  }
  if (shell) (hashes_made(recipe) ? unhashed_ : unfilled_).push_back(id);
  return shell;
}

bool Replay::make_parts(const Recipe& recipe, uint32_t first, uint32_t end) {
  for (uint32_t i = first; i < end; ++i)
    if (!part(recipe, i)) {
      if (!PyErr_Occurred()) FJ_CHECK(false, "part {} of a recipe is unbound", i);
      return false;
    }
  return true;
}

Ref Replay::make_tuple(const Recipe& recipe, uint32_t first) {
  if (!make_parts(recipe, first, recipe.part_count)) return nullptr;
  Ref tuple = Ref::steal(PyTuple_New(recipe.part_count - first));
  for (uint32_t i = first; tuple && i < recipe.part_count; ++i) {
    PyObject* item = part(recipe, i);
    Py_INCREF(item);
    PyTuple_SET_ITEM(tuple.get(), i - first, item);
  }
  return tuple;
}

Ref Replay::make_set_copy(const Recipe& recipe) {
  if (!make_parts(recipe, 0, recipe.part_count)) return nullptr;
  Ref set = copy_set(plan_.pool().at(recipe.object));
  for (uint32_t i = 0; set && i < recipe.part_count; i += 2)
    put_in_place(set.get(), part(recipe, i), part(recipe, i + 1));
  return set;
}

Ref Replay::make_call(RecipeId id, const Recipe& recipe) {
  Ref made;
  Ref args = make_tuple(recipe, 1);
  if (!args || !part(recipe, 0) || !fill_pending_for(id, &made) || made) return made;
  return Ref::steal(PyObject_Call(part(recipe, 0), args.get(), nullptr));
}

Ref Replay::make_function(const Recipe& recipe) {
  enum { kCode, kGlobals, kName, kDefaults, kKwDefaults, kClosure, kAnnotations };
  if (!make_parts(recipe, kCode, kName)) return nullptr;
  PyObject* name = part(recipe, kName);
  Ref made = Ref::steal(PyFunction_NewWithQualName(part(recipe, kCode), part(recipe, kGlobals), name));
  using Setter = int (*)(PyObject*, PyObject*);
  constexpr std::pair<uint32_t, Setter> kSetters[] = {{kDefaults, PyFunction_SetDefaults},
                                                      {kKwDefaults, PyFunction_SetKwDefaults},
                                                      {kClosure, PyFunction_SetClosure},
                                                      {kAnnotations, PyFunction_SetAnnotations}};
  for (auto [index, set] : kSetters) {
    if (!made || index >= recipe.part_count) break;
    PyObject* value = part(recipe, index);
    if (PyErr_Occurred() || (value && set(made.get(), value) < 0)) return nullptr;
  }
  return made;
}

// Items of a set; keys and values of a mapping.
static uint32_t hashed_parts(const Recipe& recipe) {
  return recipe.kind == RecipeKind::kTypedDict ? 2 * recipe.index : recipe.part_count;
}

// Whether keys or items are hashed that the replay makes, which must be whole then.
bool Replay::hashes_made(const Recipe& recipe) const {
  const bool is_set = recipe.kind == RecipeKind::kSet;
  if (!is_set && recipe.kind != RecipeKind::kDict && recipe.kind != RecipeKind::kTypedDict) return false;
  for (uint32_t i = 0; i < hashed_parts(recipe); i += is_set ? 1 : 2) {
    const RecipeKind kind = recipes_.at(recipes_.part(recipe, i)).kind;
    if (kind != RecipeKind::kConst && kind != RecipeKind::kSource && kind != RecipeKind::kOutput &&
        kind != RecipeKind::kNumber)
      return true;
  }
  return false;
}

// All else first, then what hashes what was made, in the reverse of the order in which its parts were made. No
// recursion: a program may make a hundred thousand of them.
bool Replay::fill_pending() {
  while (!unfilled_.empty() || !unhashed_.empty()) {
    std::vector<RecipeId> with_parts;
    while (!unfilled_.empty() || !unhashed_.empty()) {
      const bool hashes = unfilled_.empty();
      std::vector<RecipeId>& from = hashes ? unhashed_ : unfilled_;
      const RecipeId id = from.back();
      from.pop_back();
      const Recipe& recipe = recipes_.at(id);
      if (hashes) with_parts.push_back(id);
      if (hashes ? !make_parts(recipe, 0, hashed_parts(recipe)) : !fill(id)) return false;
    }
    for (auto id = with_parts.rbegin(); id != with_parts.rend(); ++id)
      if (!fill(*id)) return false;
  }
  return true;
}

bool Replay::fill(RecipeId id) {
  const Recipe& recipe = recipes_.at(id);
  PyObject* shell = values_[id.index()];
  switch (recipe.kind) {
    case RecipeKind::kList:
      return fill_list(shell, recipe, recipe.part_count);
    case RecipeKind::kTypedList:
      return fill_list(shell, recipe, recipe.index) && fill_attributes(shell, recipe, recipe.index);
    case RecipeKind::kDict:
      return fill_mapping(shell, recipe, recipe.part_count / 2);
    case RecipeKind::kTypedDict:
      return fill_mapping(shell, recipe, recipe.index) && fill_attributes(shell, recipe, 2 * recipe.index);
    case RecipeKind::kSet:
      return fill_set(shell, recipe);
    case RecipeKind::kObject:
      return fill_attributes(shell, recipe, 0);
    case RecipeKind::kCell:
      if (recipe.part_count == 0) return true;
      PyCell_Set(shell, part(recipe, 0));
      return !PyErr_Occurred();
    default:
      FJ_CHECK(false, "recipe kind {} is never filled", static_cast<int>(recipe.kind));
      return false;
  }
}

bool Replay::fill_list(PyObject* list, const Recipe& recipe, uint32_t count) {
  if (!make_parts(recipe, 0, count)) return false;
  for (uint32_t i = 0; i < count; ++i)
    if (PyList_Append(list, part(recipe, i)) < 0) return false;
  return true;
}

bool Replay::fill_mapping(PyObject* dict, const Recipe& recipe, uint32_t count) {
  if (!make_parts(recipe, 0, 2 * count)) return false;
  for (uint32_t i = 0; i < count; ++i)
    if (!set_dict_item(dict, part(recipe, 2 * i), part(recipe, 2 * i + 1))) return false;
  return true;
}

bool Replay::fill_set(PyObject* set, const Recipe& recipe) {
  if (!make_parts(recipe, 0, recipe.part_count)) return false;
  for (uint32_t i = 0; i < recipe.part_count; ++i)
    if (PySet_Add(set, part(recipe, i)) < 0) return false;
  return true;
}

// The instance's own attributes: slots through their descriptors, all else into the instance's dictionary, past any
// property.
bool Replay::fill_attributes(PyObject* obj, const Recipe& recipe, uint32_t first) {
  if (!make_parts(recipe, first, recipe.part_count)) return false;
  for (uint32_t i = first; i + 1 < recipe.part_count; i += 2) {
    PyObject* name = part(recipe, i);
    PyObject* value = part(recipe, i + 1);
    if (!PyUnicode_Check(name)) {
      Ref dict = Ref::steal(PyObject_GenericGetDict(obj, nullptr));
      if (!dict || PyDict_SetItem(dict.get(), name, value) < 0) return false;
      continue;
    }
    PyObject* on_type = _PyType_Lookup(Py_TYPE(obj), name);
    bool plain = !on_type || !Py_TYPE(on_type)->tp_descr_set || Py_TYPE(on_type) == &PyMemberDescr_Type;
    if (plain && PyObject_GenericSetAttr(obj, name, value) == 0) continue;
    if (plain) return false;
    PyObject** dict = _PyObject_GetDictPtr(obj);
    if (!dict) return false;
    if (!*dict && !(*dict = PyDict_New())) return false;
    if (PyDict_SetItem(*dict, name, value) < 0) return false;
  }
  return true;
}

}  // namespace framejit::runtime
