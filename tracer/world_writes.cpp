// What the trace has written to the program's own objects.
#include <algorithm>

#include "base/check.h"
#include "tracer/attributes.h"
#include "tracer/library.h"
#include "tracer/library_code.h"
#include "tracer/world.h"

namespace framejit {

using graph::SourceId;
using graph::SourceKind;

PyObject* World::shown_at(PyObject* dict, SourceId at) {
  PyObject* shadow = representation(dict);
  if (shadow && at.valid()) guard_same(outside_[shadow].source, at, true);
  return shadow;
}

PyObject* World::shown_globals(PyObject* dict) {
  PyObject* shadow = representation(dict);
  if (!shadow) return nullptr;
  const SourceId source = outside_[shadow].source;
  if (sources().at(source).kind != SourceKind::kConst) guard(graph::GuardKind::kIdIs, source, dict);
  return shadow;
}

PyObject* World::shown_of(PyObject* object, PyObject* dict) {
  if (!dict || !PyDict_CheckExact(dict) || !representation(dict)) return nullptr;
  const SourceId source = source_of(object);
  return shown_at(dict, source.valid() ? sources().read(SourceKind::kInstanceDict, source) : SourceId());
}

World::OverlayRead World::overlay(PyObject* object, PyObject* name) const {
  auto it = writes_by_object_.find(object);
  if (it == writes_by_object_.end()) return {};
  for (size_t i : it->second) {
    const AttributeWrite& write = writes_[i];
    if (write.name.get() == name || PyUnicode_Compare(write.name.get(), name) == 0) return {true, write.value.get()};
  }
  return {};
}

bool World::shows_other(PyObject* shadow, PyObject* dict, PyObject* name) const {
  if (!shadow) return false;
  PyObject *now = PyDict_GetItem(shadow, name), *before = PyDict_GetItem(dict, name);
  return now != before && !(now && before && now == representation(before));
}

bool World::changes_global(PyObject* globals, PyObject* name) const {
  return overlay(globals, name).found || shows_other(representation(globals), globals, name);
}

void World::write(PyObject* object, PyObject* name, Ref value) {
  changes_library_ = changes_library_ || (PyDict_Check(object) && is_library_namespace(object));
  std::vector<size_t>& rows = writes_by_object_[object];
  bool anew = false;
  for (size_t at = 0; at < rows.size(); ++at) {
    AttributeWrite& write = writes_[rows[at]];
    if (PyUnicode_Compare(write.name.get(), name) != 0) continue;
    anew = !write.value && value && !PyCell_Check(object);
    if (!anew) {
      write.value = std::move(value);
      return;
    }
    write.object = nullptr;
    rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(at));
    break;
  }
  rows.push_back(writes_.size());
  writes_.push_back({Ref::borrow(object), Ref::borrow(name), std::move(value), anew});
}

ItemWrite* World::replaced_item(PyObject* dict, PyObject* key) {
  if (!PyUnicode_CheckExact(key)) return nullptr;
  for (ItemWrite& write : replaced_items_)
    if (write.dict == dict && PyUnicode_Compare(write.key.get(), key) == 0) return &write;
  return nullptr;
}

SymValue World::dict_item(PyObject* dict, PyObject* key, PyObject* real) {
  if (const ItemWrite* write = replaced_item(dict, key)) return SymValue::borrow(write->value.get());
  return wrap(real, sources().keyed(SourceKind::kDictItem, find(dict)->source, pool_.add(key)));
}

void World::replace_item(PyObject* dict, PyObject* key, Ref value) {
  if (ItemWrite* write = replaced_item(dict, key)) {
    write->value = std::move(value);
    return;
  }
  SymValue original = dict_item(dict, key, PyDict_GetItem(dict, key));
  realise(original);
  replaced_items_.push_back({dict, Ref::borrow(key), std::move(original.obj), std::move(value)});
}

void World::note_changed(PyObject* container) {
  const Outside* outside = find(container);
  if (!outside || !changed_.insert(container).second) return;
  const graph::Source& source = sources().at(outside->source);
  if (source.kind != SourceKind::kDictItem || sources().at(source.base).kind != SourceKind::kInstanceDict) return;
  const auto tables = module_tables();
  const bool names_one = std::find(tables.begin(), tables.end(), pool_.at(source.object)) != tables.end();
  changed_module_table_ = changed_module_table_ || names_one;
}

void World::note_removed(PyObject* dict, Removal how, PyObject* key) {
  const Outside* outside = find(dict);
  if (!outside || outside->kind != OutsideKind::kDict) return;
  Removals& removals = removals_[dict];
  if (how == Removal::kCleared) {
    removals.cleared = true;
    return;
  }
  if (!removals.gone) removals.gone = Ref::steal(PySet_New(nullptr));
  // The dictionary has just looked for it: neither question fails.
  if (PyDict_Contains(outside->original.get(), key) != 1 || PySet_Contains(removals.gone.get(), key) == 1) return;
  FJ_CHECK(PySet_Add(removals.gone.get(), key) == 0, "a key of a dictionary is none of a set");
  removals.keys.emplace_back(how, Ref::borrow(key));
}

const World::Removals* World::removals(PyObject* dict) const {
  const auto found = removals_.find(dict);
  return found == removals_.end() ? nullptr : &found->second;
}

void World::move_writes_to(PyObject* dict) {
  PyObject* real = find(dict)->real.get();
  for (const auto& [object, rows] : writes_by_object_) {
    const Outside* outside = find(object);
    PyObject* holder = outside ? outside->real.get() : object;
    if (rows.empty() || (holder != real && instance_dict(holder) != real)) continue;
    if (holder == real)
      shown_globals(real);
    else
      shown_of(object, real);
    return move_writes(object, dict);
  }
}

bool World::is_field(const AttributeWrite& write) const {
  if (PyDict_CheckExact(write.object.get())) return false;
  PyObject* descriptor = _PyType_Lookup(Py_TYPE(write.object.get()), write.name.get());
  return descriptor && Py_TYPE(descriptor)->tp_descr_set;
}

std::vector<PyObject*> World::written_objects() const {
  std::vector<PyObject*> objects;
  std::unordered_set<PyObject*> known;
  for (const AttributeWrite& write : writes_) {
    PyObject* object = write.object.get();
    if (object && !PyCell_Check(object) && !is_field(write) && known.insert(object).second) objects.push_back(object);
  }
  return objects;
}

void World::note_keyword_defaults(PyObject* dict, SourceId source) {
  for (const auto& [known, _] : keyword_defaults_)
    if (known == dict) return;
  keyword_defaults_.emplace_back(dict, source);
}

void World::move_writes(PyObject* object, PyObject* dict) {
  auto it = writes_by_object_.find(object);
  if (it == writes_by_object_.end()) return;
  std::vector<size_t> fields;
  for (size_t i : it->second) {
    AttributeWrite& write = writes_[i];
    if (is_field(write)) {
      fields.push_back(i);
      continue;
    }
    if ((write.anew || !write.value) && PyDict_GetItem(dict, write.name.get())) {
      PyDict_DelItem(dict, write.name.get());
      note_removed(dict, Removal::kDeleted, write.name.get());
    }
    if (write.value) PyDict_SetItem(dict, write.name.get(), write.value.get());
    write.object = nullptr;
  }
  it->second = std::move(fields);
}

}  // namespace framejit
