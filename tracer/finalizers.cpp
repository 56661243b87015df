// Objects of the segment's frame whose end can be seen: the segment ends before the frame lets go of one.
#include <algorithm>
#include <string_view>

#include "tracer/owned_objects.h"
#include "tracer/simulator.h"

namespace framejit {

namespace {

// Dynamo watches each nn.Module that is made after torch.compile has run; no program sees what it does then.
bool is_of_dynamo(const PyWeakReference* reference) {
  PyObject* callback = reference->wr_callback;
  if (!callback || !PyFunction_Check(callback)) return false;
  PyObject* module = PyDict_GetItem(PyFunction_GET_GLOBALS(callback), interned("__name__"));
  return module && PyUnicode_Check(module) &&
         std::string_view(PyUnicode_AsUTF8(module)).rfind("torch._dynamo.", 0) == 0;
}

bool is_of_an_entry(const PyWeakReference* reference) {
  PyObject* callback = reference->wr_callback;
  return callback && PyCFunction_Check(callback) &&
         reinterpret_cast<PyCFunctionObject*>(callback)->m_ml->ml_name == kEntryWatchName;
}

bool is_watched_by_program(PyObject* obj) {
  auto* reference = reinterpret_cast<PyWeakReference*>(*PyObject_GET_WEAKREFS_LISTPTR(obj));
  while (reference && (is_of_dynamo(reference) || is_of_an_entry(reference))) reference = reference->wr_next;
  return reference != nullptr;
}

}  // namespace

bool Simulator::has_finalizer(PyObject* obj) const {
  // The trace works on stand-ins of these.
  if (!obj || is_tensor(obj) || PyList_CheckExact(obj) || PyDict_CheckExact(obj) || PyAnySet_CheckExact(obj) ||
      PyTuple_CheckExact(obj))
    return false;
  if (Py_TYPE(obj)->tp_finalize || PyMemoryView_Check(obj)) return true;
  if (PyCode_Check(obj) && services_.has_data_of_others(obj)) return true;
  const bool may_be_watched = PyType_SUPPORTS_WEAKREFS(Py_TYPE(obj)) && !PyType_Check(obj) && !PyModule_Check(obj);
  return may_be_watched && is_watched_by_program(obj);
}

void Simulator::watch_finalizers() {
  std::unordered_map<PyObject*, Py_ssize_t> held;
  for (size_t i = 0; i < start_.code->slots.size(); ++i)
    if (start_.slots[i]) ++held[start_.slots[i]];
  for (size_t i = 0; i < start_.stack_depth; ++i)
    if (start_.stack[i]) ++held[start_.stack[i]];
  const OwnedObjects& owned = owned_.emplace(*this, held);
  for (auto [obj, count] : held) {
    const bool ends_with_frame = owned.contains(obj);
    // Functions are watched by many, and mostly somebody else holds them.
    const bool is_end = has_finalizer(obj) && (ends_with_frame || !PyFunction_Check(obj));
    if (is_end || (ends_with_frame && owned.have_end_behind(obj))) finalizers_.push_back(obj);
    if (ends_with_frame && owned.hide(obj)) hiding_.push_back(obj);
  }
}

bool Simulator::is_held_by_frames(PyObject* obj) const {
  auto holds = [&](const SimFrame& frame) {
    auto is_it = [&](const SymValue& value) {
      const Outside* outside = value.null() || value.get() == obj ? nullptr : world_.find(value.get());
      return value.get() == obj || (outside && outside->real.get() == obj);
    };
    for (size_t i = 0; i < frame.raw.size(); ++i)
      if (frame.raw[i] && start_.slots[i] == obj) return true;
    return std::any_of(frame.slots.begin(), frame.slots.end(), is_it) ||
           std::any_of(frame.stack.begin(), frame.stack.end(), is_it);
  };
  return std::any_of(frames_.begin(), frames_.end(), [&](const SimFrame* frame) { return holds(*frame); });
}

void Simulator::require_finalizers_held() {
  for (size_t i = 0; i < finalizers_.size(); ++i) {
    PyObject* obj = finalizers_[i];
    if (is_held_by_frames(obj)) continue;
    // A tuple that was unpacked: the frame holds its items, whose ends are still to come.
    const std::vector<PyObject*> parts = has_finalizer(obj) ? std::vector<PyObject*>() : owned_->parts_with_end(obj);
    if (parts.empty() || !std::all_of(parts.begin(), parts.end(), [&](PyObject* p) { return is_held_by_frames(p); }))
      stop(StopReason::kUnsupportedValue, fmt::format("a '{}' may end here", Py_TYPE(obj)->tp_name));
    finalizers_.erase(finalizers_.begin() + static_cast<std::ptrdiff_t>(i--));
    finalizers_.insert(finalizers_.end(), parts.begin(), parts.end());
  }
}

// What has let go of it may not be the last that did.
void Simulator::require_referents_known() {
  for (PyObject* obj : hiding_)
    if (!is_held_by_frames(obj))
      stop(StopReason::kUnsupportedValue,
           fmt::format("a weak reference is asked where a '{}' has ended, and what it referred to is not known",
                       Py_TYPE(obj)->tp_name));
}

void Simulator::require_survives(PyObject* replaced) {
  // The trace holds the function too, in a stand-in of what it is in.
  PyObject* code = replaced && PyFunction_Check(replaced) ? PyFunction_GET_CODE(replaced) : nullptr;
  const bool only_code = code && Py_REFCNT(code) == 1 + services_.pool.holds(code);
  if (has_finalizer(replaced) || (only_code && has_finalizer(code)))
    stop(StopReason::kUnsupportedValue, fmt::format("a '{}' may end here", Py_TYPE(replaced)->tp_name));
}

void Simulator::require_item_survives(PyObject* container, PyObject* key) {
  if (PyDict_Check(container) && PyUnicode_CheckExact(key)) return require_survives(PyDict_GetItem(container, key));
  if (!PyDict_CheckExact(container) && !PyList_CheckExact(container)) return;
  Ref replaced = Ref::steal(PyObject_GetItem(container, key));
  if (!replaced) return PyErr_Clear();
  if (!PySlice_Check(key)) return require_survives(replaced.get());
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(replaced.get()); ++i) require_survives(PyList_GET_ITEM(replaced.get(), i));
}

void Simulator::require_items_survive(PyObject* container) {
  if (!world_.find(container)) return;
  if (PyDict_Check(container)) {
    PyObject *key, *value;
    for (Py_ssize_t pos = 0; PyDict_Next(container, &pos, &key, &value);) {
      require_survives(key);
      require_survives(value);
    }
  } else if (PyList_Check(container) || PyAnySet_Check(container)) {
    Ref items = check(PySequence_Tuple(container));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) require_survives(PyTuple_GET_ITEM(items.get(), i));
  }
}

// A clear() is replayed, then what the dictionary holds at the end is put in: without holes.
void Simulator::refuse_hole_after_clear(PyObject* dict) {
  const World::Removals* removals = world_.removals(dict);
  if (removals && removals->cleared) stop(StopReason::kUnsupportedValue, "deletion from a dictionary that was cleared");
}

namespace {

// What a method does to the container that it is called on.
enum class Change : uint8_t { kNone, kAdds, kLetsGo, kGivesBack };

// C methods of lists, dictionaries and sets that change them, by what becomes of the items that they take out.
Change change_by(PyObject* method) {
  static const std::unordered_map<PyObject*, Change> kChanges = [] {
    struct Row {
      Change change;
      std::initializer_list<const char*> names;
    };
    static const Row kRows[] = {
        {Change::kAdds,
         {"__iadd__", "add", "append", "extend", "insert", "move_to_end", "reverse", "setdefault", "sort"}},
        {Change::kLetsGo,
         {"__delitem__", "__iand__", "__imul__", "__ior__", "__isub__", "__ixor__", "__setitem__", "clear",
          "difference_update", "discard", "intersection_update", "popitem", "remove", "symmetric_difference_update",
          "update"}},
        {Change::kGivesBack, {"pop"}},
    };
    std::unordered_map<PyObject*, Change> changes;
    for (PyTypeObject* type : {&PyList_Type, &PyDict_Type, &PyODict_Type, &PySet_Type})
      for (const Row& row : kRows)
        for (const char* name : row.names)
          if (PyObject* found = _PyType_Lookup(type, interned(name))) changes.emplace(found, row.change);
    return changes;
  }();
  auto found = kChanges.find(method);
  return found == kChanges.end() ? Change::kNone : found->second;
}

// How a method of dictionaries takes keys out.
std::optional<World::Removal> removal_by(PyObject* method) {
  using Removal = World::Removal;
  static const auto kRows = [] {
    auto found = [](const char* name) { return _PyType_Lookup(&PyDict_Type, interned(name)); };
    return std::unordered_map<PyObject*, Removal>{{found("clear"), Removal::kCleared},
                                                  {found("popitem"), Removal::kPopped},
                                                  {found("pop"), Removal::kDeleted},
                                                  {found("__delitem__"), Removal::kDeleted}};
  }();
  const auto row = kRows.find(method);
  return row == kRows.end() ? std::nullopt : std::optional(row->second);
}

}  // namespace

// What a method lets go of survives; what it gives back is held by the frame from here on.
SymValue Simulator::call_container_method(PyObject* method, PyObject* args, PyObject* keywords) {
  const Change change = change_by(method);
  PyObject* container = PyTuple_GET_SIZE(args) > 0 ? PyTuple_GET_ITEM(args, 0) : nullptr;
  if (change == Change::kLetsGo && container) require_items_survive(container);
  if (change != Change::kNone && container) world_.note_changed(container);
  std::optional<World::Removal> removal;
  if (container && PyDict_CheckExact(container)) removal = removal_by(method);
  const Py_ssize_t size = removal ? PyDict_GET_SIZE(container) : 0;
  if (removal == World::Removal::kDeleted) refuse_hole_after_clear(container);
  SymValue result = from_real(check(PyObject_Call(method, args, keywords)));
  if (removal && PyDict_GET_SIZE(container) < size) {
    const bool is_given = removal == World::Removal::kDeleted;
    PyObject* key = is_given                             ? PyTuple_GET_ITEM(args, 1)
                    : removal == World::Removal::kPopped ? PyTuple_GET_ITEM(result.get(), 0)
                                                         : nullptr;
    world_.note_removed(container, *removal, key);
  }
  if (change == Change::kGivesBack && has_finalizer(result.get())) finalizers_.push_back(result.get());
  return result;
}

}  // namespace framejit
