// Keys: what C code hashes. Objects and tensors of the program hash by their addresses: those that differ while
// capturing may be one in another call, so a capture that has told them apart is guarded by their being apart.
#include <algorithm>

#include "tracer/library_code.h"
#include "tracer/plain_data.h"
#include "tracer/simulator.h"

namespace framejit {

namespace {

// Whether it may inherit from more than object. Most classes do not, and each call of C asks.
bool may_have_bases(const PyTypeObject* type) {
  PyObject* const order = type->tp_mro;  // null: its metaclass is just making that
  return !order || PyTuple_GET_SIZE(order) != 2 ||
         PyTuple_GET_ITEM(order, 1) != reinterpret_cast<PyObject*>(&PyBaseObject_Type);
}

bool is_keyed_type(PyTypeObject* type) {
  const bool walks = may_have_bases(type);
  for (PyTypeObject* base : {&PyDict_Type, &PySet_Type, &PyFrozenSet_Type, &PyDictKeys_Type, &PyDictItems_Type})
    if (type == base || (walks && PyType_IsSubtype(type, base))) return true;
  return false;
}

// The container whose keys a C function looks at or makes, or a type of such. Null: it does not.
PyObject* keyed_by(PyObject* callable, const CallArgs& args) {
  PyObject* first = args.positional.empty() ? nullptr : args.positional[0].get();
  if (PyType_Check(callable)) return is_keyed_type(reinterpret_cast<PyTypeObject*>(callable)) ? callable : nullptr;
  if (PyCFunction_Check(callable)) {
    PyObject* self = PyCFunction_GET_SELF(callable);
    if (self && PyType_Check(self)) return is_keyed_type(reinterpret_cast<PyTypeObject*>(self)) ? self : nullptr;
    if (self && is_keyed_type(Py_TYPE(self))) return self;
    return args.positional.size() > 1 && is_keyed_type(Py_TYPE(first)) ? first : nullptr;  // _count_elements
  }
  const bool is_method = PyObject_TypeCheck(callable, &PyMethodDescr_Type) || Py_TYPE(callable) == &PyWrapperDescr_Type;
  return is_method && first && is_keyed_type(Py_TYPE(first)) ? first : nullptr;
}

bool has_name(PyObject* method, std::initializer_list<const char*> names) {
  Ref name = Ref::steal(PyObject_GetAttrString(method, "__name__"));
  if (!name) PyErr_Clear();
  return name && std::any_of(names.begin(), names.end(),
                             [&](const char* each) { return PyUnicode_CompareWithASCIIString(name.get(), each) == 0; });
}

}  // namespace

// Of a tuple of a subclass, as namedtuples are. False: its items are no plain values.
bool Simulator::rely_on_stored_items(PyObject* tuple) {
  PyObject** const items = PySequence_Fast_ITEMS(tuple);
  const bool plain = std::all_of(items, items + PyTuple_GET_SIZE(tuple), [](PyObject* item) {
    return item == Py_None || PyBool_Check(item) || PyLong_CheckExact(item) || PyUnicode_CheckExact(item);
  });
  if (!plain) return false;
  const Py_ssize_t size = stored_length(tuple);
  for (Py_ssize_t i = 0; i < size; ++i) {
    SymValue item = stored_item(tuple, i);
    realise(item);
  }
  return true;
}

bool Simulator::rely_on_key(PyObject* key) {
  SeenSets seen;
  return rely_on_key(key, seen);
}

bool Simulator::rely_on_keys(PyObject* container) {
  SeenSets seen;
  return rely_on_keys(container, seen);
}

bool Simulator::rely_on_key(PyObject* key, SeenSets& seen) {
  if (PyTuple_Check(key) && is_outside_opaque(key) && rely_on_stored_items(key)) return false;
  world_.rely_on_hashed_value(key);
  if (PyFrozenSet_Check(key) && !seen.insert(key).second) return false;
  if (PyTuple_Check(key) || PyFrozenSet_Check(key)) return rely_on_keys(key, seen);
  const Outside* outside = world_.find(key);
  if (!outside || (outside->kind != OutsideKind::kOpaque && outside->kind != OutsideKind::kTensor)) return false;
  keys_.insert(key);
  return true;
}

bool Simulator::rely_on_keys(PyObject* container, SeenSets& seen) {
  if (is_outside_opaque(container)) return false;
  bool found = false;
  if (PyDict_Check(container)) {
    PyObject *key, *value;
    for (Py_ssize_t pos = 0; PyDict_Next(container, &pos, &key, &value);) found |= rely_on_key(key, seen);
    return found;
  }
  const bool has_items = PyTuple_Check(container) || PyList_Check(container) || PyAnySet_Check(container);
  if (!has_items && !is_keyed_type(Py_TYPE(container))) return false;
  // As the C code that hashes the items or looks them up, which asks no __iter__ of a subclass.
  const getiterfunc stored = PyAnySet_Check(container)  ? PySet_Type.tp_iter
                             : PyTuple_Check(container) ? PyTuple_Type.tp_iter
                             : PyList_Check(container)  ? PyList_Type.tp_iter
                                                        : PyObject_GetIter;
  Ref iterator = Ref::steal(stored(container));
  while (iterator) {
    Ref item = Ref::steal(PyIter_Next(iterator.get()));
    if (!item) break;
    found |= rely_on_key(item.get(), seen);
  }
  if (PyErr_Occurred()) raise();
  return found;
}

void Simulator::rely_on_lookup(PyObject* container, PyObject* key) {
  if (is_keyed_type(Py_TYPE(container)) && rely_on_key(key)) rely_on_keys(container);
}

// Before the call, which may raise for want of a key. The container, if there may be keys to rely on after the call.
PyObject* Simulator::rely_on_given_keys(PyObject* callable, CallArgs& args) {
  PyObject* container = keyed_by(callable, args);
  if (!container) return nullptr;
  const size_t first = !args.positional.empty() && args.positional[0].get() == container;
  const bool takes_key = has_name(callable, {"get", "pop", "setdefault", "__setitem__", "__getitem__", "__delitem__"});
  const size_t end = takes_key ? std::min(args.positional.size(), first + 1) : args.positional.size();
  bool found = false;
  for (size_t i = first; i < end; ++i) {
    SymValue& given = args.positional[i];
    if (i > first && given.lazy.valid()) continue;
    PyObject* obj = realise(given);
    if (PyIter_Check(obj)) {
      if (has_name(callable, {"isdisjoint", "issuperset"}))
        stop(StopReason::kUnsupportedValue, "an iterator is searched for what a set has");
      if (has_name(callable, {"difference", "difference_update", "intersection", "intersection_update", "issubset"}))
        given = SymValue(check(PySequence_List(obj)));
      else
        found = true;
      obj = given.get();
    }
    found |= takes_key ? rely_on_key(obj) : rely_on_keys(obj) || rely_on_key(obj);
  }
  if (!found) return nullptr;
  rely_on_made_keys(container);
  return container;
}

void Simulator::rely_on_made_keys(PyObject* obj) {
  if (is_keyed_type(Py_TYPE(obj))) rely_on_keys(obj);
}

void Simulator::require_plain_key(PyObject* key) {
  if (PyTuple_CheckExact(key)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) require_plain_key(PyTuple_GET_ITEM(key, i));
    return;
  }
  if (!is_plain_data(key) && !is_tensor(key) && (!is_identity_constant(key) || hashes_in_python(key)))
    require_hash_in_c(key);
  rely_on_key(key);
}

void Simulator::require_hash_in_c(PyObject* key) {
  for (const char* name : {"__hash__", "__eq__"})
    if (PyObject* found = lookup_type(Py_TYPE(key), interned(name));
        found && found != Py_None && !is_descriptor_of_c(found))
      stop(StopReason::kUnsupportedValue,
           fmt::format("a '{}' with {} in Python is a key", Py_TYPE(key)->tp_name, name));
}

}  // namespace framejit
