// Dictionaries of the program that are of a subclass: read item by item, or as a copy.
#include "tracer/callables.h"
#include "tracer/library_code.h"
#include "tracer/simulator.h"

namespace framejit {

using graph::GuardKind;

static bool has_own_iter(Simulator& sim, PyObject* dict) {
  PyObject* iter = sim.lookup_type(Py_TYPE(dict), interned("__iter__"));
  return iter && PyFunction_Check(iter);
}

// A key that is a tuple is one argument of the exception, not its arguments.
void Simulator::raise_key_error(PyObject* key) {
  Ref arguments = check(PyTuple_Pack(1, key));
  PyErr_SetObject(PyExc_KeyError, arguments.get());
  raise();
}

Ref Simulator::snapshot_dict(const SymValue& mapping) {
  Ref copy = check(PyDict_New());
  SymValue keys = get_iter(mapping);
  while (auto key = next(keys)) {
    SymValue value = get_item(mapping, *key);
    check_status(PyDict_SetItem(copy.get(), key->get(), realise(value)));
  }
  return copy;
}

SymValue Simulator::call_outside_dict_method(PyObject* key, CallArgs args) {
  static const char* const kReaders[] = {"keys", "values", "items", "copy", "__iter__"};
  SymValue self = args.positional[0];
  const char* name = PyUnicode_AsUTF8(reinterpret_cast<PyDescrObject*>(key)->d_name);
  if (!PyDict_Check(self.get())) stop(StopReason::kUnsupportedValue, qualified_name(key));
  const Outside* outside = world_.find(self.get());
  const size_t given = args.has_keywords() ? SIZE_MAX : args.positional.size() - 1;
  auto is_call_of = [&](const char* method, size_t least, size_t most) {
    return !strcmp(name, method) && given >= least && given <= most;
  };
  auto item = [&]() -> std::optional<SymValue> {
    PyObject* at = realise(args.positional[1]);
    if (!is_constant_key(at)) stop(StopReason::kUnsupportedValue, "a key of a dict");
    PyObject* value = PyDict_GetItemWithError(self.get(), at);
    if (!value && PyErr_Occurred()) raise();
    if (value) return world_.dict_item(self.get(), at, value);
    world_.guard(GuardKind::kHasNoKey, outside->source, at);
    return std::nullopt;
  };
  if (is_call_of("__getitem__", 1, 1)) {
    if (auto found = item()) return *found;
    if (lookup_type(Py_TYPE(self.get()), interned("__missing__")))
      stop(StopReason::kUnsupportedValue, "__missing__ of a dict");
    raise_key_error(args.positional[1].get());
  }
  if (is_call_of("__contains__", 1, 1)) return SymValue::of_bool(item().has_value());
  if (is_call_of("__len__", 0, 0)) {
    world_.guard(GuardKind::kLength, outside->source, nullptr, PyDict_GET_SIZE(self.get()));
    return SymValue(check(PyLong_FromSsize_t(PyDict_GET_SIZE(self.get()))));
  }
  if (is_call_of("get", 1, 2)) {
    if (auto found = item()) return *found;
    return given == 2 ? args.positional[2] : SymValue::borrow(Py_None);
  }
  for (const char* reader : kReaders) {
    if (!is_call_of(reader, 0, 0)) continue;
    // dict's own methods give an OrderedDict's keys in an order that no guard tells: dict's.
    if (PyODict_Check(self.get()) && PyDescr_TYPE(key) != &PyODict_Type) break;
    // As dict_merge, which asks what iterates in a way of its own for keys() and items.
    if (!strcmp(name, "copy") && has_own_iter(*this, self.get())) break;
    Ref copy = snapshot_dict_items(self.get());
    if (PyDescr_TYPE(key) == &PyODict_Type)
      copy = check(PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PyODict_Type), copy.get(), nullptr));
    if (!strcmp(name, "copy")) {
      if (PyDescr_TYPE(key) == &PyODict_Type && Py_TYPE(self.get()) != &PyODict_Type) break;
      return SymValue(std::move(copy));
    }
    note_snapshot(copy.get(), self.get(), key);
    Ref method = check(PyObject_GetAttrString(copy.get(), name));
    SymValue view = from_real(check(PyObject_CallObject(method.get(), nullptr)));
    note_native_origin(view.get());
    return view;
  }
  stop(StopReason::kUnsupportedValue, fmt::format("'{}' of a dict subclass of the program", name));
}

// The keys of a dictionary of a subclass in the order of its C code, which is an OrderedDict's own; guarded.
Ref Simulator::keys_of_outside(PyObject* mapping) {
  PyObject *held, *value;
  for (Py_ssize_t position = 0; PyDict_Next(mapping, &position, &held, &value);)
    if (!is_constant_key(held))
      stop(StopReason::kUnsupportedValue, fmt::format("a key of type '{}'", Py_TYPE(held)->tp_name));
  Ref iterator = check((PyODict_Check(mapping) ? PyODict_Type : PyDict_Type).tp_iter(mapping));
  Ref keys = check(PySequence_Tuple(iterator.get()));
  bool whole = PyTuple_GET_SIZE(keys.get()) == PyDict_GET_SIZE(mapping);
  for (Py_ssize_t i = 0; whole && i < PyTuple_GET_SIZE(keys.get()); ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys.get(), i);
    world_.rely_on_identity(key);
    const int found = PyDict_Contains(mapping, key);
    check_status(found);
    whole = found == 1;
  }
  if (!whole) stop(StopReason::kUnsupportedValue, "an OrderedDict that dict's own methods have changed");
  world_.guard_items(GuardKind::kDictKeys, world_.find(mapping)->source, keys.get());
  return keys;
}

// As snapshot_dict, but by C's own look-up and iteration: for the methods of dict itself.
Ref Simulator::snapshot_dict_items(PyObject* mapping) {
  Ref keys = keys_of_outside(mapping);
  Ref copy = check(PyDict_New());
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys.get()); ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys.get(), i);
    SymValue value = world_.dict_item(mapping, key, PyDict_GetItemWithError(mapping, key));
    check_status(PyDict_SetItem(copy.get(), key, realise(value)));
  }
  return copy;
}

// An item of an outside dictionary of a subclass is replaced. A new key would change what iterates over the dictionary.
void Simulator::replace_outside_item(PyObject* dict, PyObject* key, const SymValue& value) {
  auto stores = [](PyTypeObject& type) { return type.tp_as_mapping->mp_ass_subscript; };
  const auto store = PyDict_Check(dict) ? stores(*Py_TYPE(dict)) : nullptr;
  const bool known = store && (store == stores(PyDict_Type) || store == stores(PyODict_Type));
  if (!known || !PyUnicode_CheckExact(key) || !PyDict_GetItem(dict, key))
    stop(StopReason::kUnsupportedValue, fmt::format("item write to '{}'", Py_TYPE(dict)->tp_name));
  require_item_survives(dict, key);
  world_.note_changed(dict);
  world_.replace_item(dict, key, value.obj);
  for (const auto& [items, shown] : snapshots_)  // views and iterators that the trace has made show it too
    if (shown.container == dict && PyDict_Check(items)) check_status(PyObject_SetItem(items, key, value.get()));
}

}  // namespace framejit
