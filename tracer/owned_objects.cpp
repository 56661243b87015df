#include "tracer/owned_objects.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "tracer/simulator.h"

namespace framejit {

namespace {

constexpr size_t kMostLookedThrough = 16384;

// Of types in C of the standard library that tell the collector of all that they refer to; those without a module do.
constexpr std::array<std::string_view, 8> kTellingModules = {
    "_contextvars.", "_functools.", "_io.", "_thread.", "collections.", "functools.", "itertools.", "operator.",
};

// Numbers and texts, of which there may be many: nothing lies behind them, and nobody sees their end.
bool is_plain(PyObject* obj) {
  PyTypeObject* type = Py_TYPE(obj);
  return !PyObject_IS_GC(obj) && !PyType_SUPPORTS_WEAKREFS(type) && !type->tp_finalize;
}

// The type in C that a class of the program is laid out as.
PyTypeObject* layout_of(PyTypeObject* type) {
  auto is_of_python = [](PyTypeObject* t) {
    return (t->tp_flags & Py_TPFLAGS_HEAPTYPE) && std::string_view(t->tp_name).find('.') == std::string_view::npos;
  };
  while (is_of_python(type) && type->tp_base) type = type->tp_base;
  return type;
}

// Picklers, whose memo is a table of their own, and types of extension modules.
bool may_hide(PyObject* obj) {
  const std::string_view name = layout_of(Py_TYPE(obj))->tp_name;
  return name.find('.') != std::string_view::npos &&
         std::none_of(kTellingModules.begin(), kTellingModules.end(),
                      [&](std::string_view module) { return name.substr(0, module.size()) == module; });
}

}  // namespace

template <class F>
void OwnedObjects::each_part(PyObject* obj, F&& see) {
  if (!PyObject_IS_GC(obj) || !Py_TYPE(obj)->tp_traverse) return;
  auto visit = [](PyObject* part, void* see_part) {
    if (part) (*static_cast<std::remove_reference_t<F>*>(see_part))(part);
    return 0;
  };
  Py_TYPE(obj)->tp_traverse(obj, visit, &see);
}

OwnedObjects::OwnedObjects(const Simulator& sim, const std::unordered_map<PyObject*, Py_ssize_t>& held) : sim_(sim) {
  for (auto [obj, count] : held) others_.emplace(obj, Py_REFCNT(obj) - count);
  for (auto [obj, count] : held)
    if (others_.at(obj) <= 0) own(obj);
  while (!pending_.empty()) {
    PyObject* obj = pending_.back();
    pending_.pop_back();
    each_part(obj, [this](PyObject* part) { count_reference(part); });
  }
  for (PyObject* obj : owned_) {
    if (held.count(obj) == 0 && sim_.has_finalizer(obj)) ends_.insert(obj);
    if (may_hide(obj)) hiding_.insert(obj);
  }
}

void OwnedObjects::own(PyObject* obj) {
  if (PyType_Check(obj) || sim_.is_tensor(obj)) return;
  if (!owned_.insert(obj).second) return;
  if (owned_.size() <= kMostLookedThrough)
    pending_.push_back(obj);
  else
    incomplete_ = true;
}

void OwnedObjects::count_reference(PyObject* part) {
  if (is_plain(part)) return;
  Py_ssize_t& others = others_.emplace(part, Py_REFCNT(part)).first->second;
  if (--others == 0) own(part);
}

std::vector<PyObject*> OwnedObjects::parts_with_end(PyObject* obj) const {
  std::vector<PyObject*> parts;
  if (incomplete_) return parts;
  each_part(obj, [&](PyObject* part) {
    if (contains(part) && (ends_.count(part) != 0 || leads_to(part, ends_))) parts.push_back(part);
  });
  return parts;
}

bool OwnedObjects::leads_to(PyObject* obj, const Objects& wanted) const {
  if (wanted.empty()) return false;
  Objects seen = {obj};
  std::vector<PyObject*> pending = {obj};
  bool found = false;
  while (!pending.empty() && !found) {
    PyObject* next = pending.back();
    pending.pop_back();
    each_part(next, [&](PyObject* part) {
      found = found || wanted.count(part) != 0;
      if (contains(part) && seen.insert(part).second) pending.push_back(part);
    });
  }
  return found;
}

}  // namespace framejit
