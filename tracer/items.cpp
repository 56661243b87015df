// Items and iteration.
#include "tracer/library.h"
#include "tracer/library_code.h"
#include "tracer/proxies.h"
#include "tracer/simulator.h"

namespace framejit {

using graph::GuardKind;
using graph::SourceKind;

PyObject* builtin(const char* name) {
  PyObject* builtins = PyImport_GetModuleDict();
  return PyDict_GetItemString(PyModule_GetDict(PyDict_GetItemString(builtins, "builtins")), name);
}

namespace {

bool is_exact_builtin_container(PyObject* obj) {
  PyTypeObject* type = Py_TYPE(obj);
  return type == &PyList_Type || type == &PyTuple_Type || type == &PyDict_Type || type == &PySet_Type ||
         type == &PyFrozenSet_Type || type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyRange_Type;
}

// The program's tensor that a fake of the trace stands for, as a key: it is found by its address, as torch.Tensor
// hashes (an optimiser keeps its state so). Null: it is no such key.
PyObject* tensor_key(Simulator& sim, PyObject* fake) {
  const Outside* outside = sim.world().find(fake);
  if (!outside || outside->kind != OutsideKind::kTensor) return nullptr;
  PyObject* name = interned("__hash__");
  PyObject* real = outside->real.get();
  PyObject* hashes = _PyType_Lookup(reinterpret_cast<PyTypeObject*>(library().tensor_type), name);
  if (!hashes || sim.lookup_type(Py_TYPE(real), name) != hashes) return nullptr;
  sim.world().guard(GuardKind::kIdIs, outside->source, real);
  return real;
}

// A key of a dict of the program that is a subclass of dict: read item by item.
PyObject* plain_key(Simulator& sim, SymValue& key) {
  PyObject* obj = sim.realise(key);
  if (PyObject* tensor = tensor_key(sim, obj)) return tensor;
  sim.world().rely_on_identity(obj);
  if (!is_constant_key(obj))
    sim.stop(StopReason::kUnsupportedValue, fmt::format("a key of type '{}'", Py_TYPE(obj)->tp_name));
  return obj;
}

// A set of objects gives them in an order that comes from their addresses.
void require_known_order(Simulator& sim, PyObject* set) {
  if (PySet_GET_SIZE(set) < 2) return;
  PyObject* items = sim.keep(sim.check(PySequence_Tuple(set)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items); ++i)
    if (PyObject* item = PyTuple_GET_ITEM(items, i); !is_plain_data(item) && !is_identity_constant(item))
      sim.stop(StopReason::kUnsupportedValue, fmt::format("the order of a set of '{}'", Py_TYPE(item)->tp_name));
}

}  // namespace

// As __missing__ of a dictionary that the trace made; of a defaultdict's what its factory makes.
static std::optional<SymValue> make_missing_item(Simulator& sim, PyObject* obj, const SymValue& key) {
  if (!PyDict_Check(obj) || PyDict_CheckExact(obj)) return std::nullopt;
  sim.rely_on_lookup(obj, key.get());
  if (PyDict_GetItemWithError(obj, key.get())) return std::nullopt;
  if (PyErr_Occurred()) sim.raise();
  if (auto made = sim.call_special(obj, "__missing__", {key})) return made;
  if (strcmp(Py_TYPE(obj)->tp_name, "collections.defaultdict") != 0) return std::nullopt;
  Ref factory = sim.check(PyObject_GetAttrString(obj, "default_factory"));
  if (factory.get() == Py_None) return std::nullopt;
  SymValue made = sim.call(SymValue(std::move(factory)), CallArgs{});
  sim.check_status(PyDict_SetItem(obj, key.get(), sim.realise(made)));
  return made;
}

// Of typing itself: special forms, types with arguments, type variables.
static bool is_typing_object(PyObject* obj) {
  if (!(Py_TYPE(obj)->tp_flags & Py_TPFLAGS_HEAPTYPE) && strncmp(Py_TYPE(obj)->tp_name, "typing.", 7) != 0)
    return false;
  static PyObject* module_name = interned("typing");
  Ref module = Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(obj)), "__module__"));
  if (!module) PyErr_Clear();
  return module && PyUnicode_Check(module.get()) && PyUnicode_Compare(module.get(), module_name) == 0;
}

static bool is_type_argument(World& world, PyObject* obj, int depth = 4) {
  if (is_typing_object(obj)) return world.rely_on_typing_object(obj), true;
  if (depth > 0 && (PyTuple_CheckExact(obj) || (PyList_CheckExact(obj) && !world.find(obj)))) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(obj); ++i)
      if (!is_type_argument(world, PySequence_Fast_GET_ITEM(obj, i), depth - 1)) return false;
    return true;
  }
  if (depth > 0 && (is_generic_alias(obj) || is_type_union(obj)) && !world.find(obj)) {
    Ref arguments = Ref::steal(PyObject_GetAttrString(obj, "__args__"));
    if (!arguments) throw PythonRaised{};
    return is_type_argument(world, arguments.get(), depth - 1);
  }
  return is_plain_data(obj) || PyType_Check(obj);
}

// The items of an outside list or tuple of a subclass, as C code has them: its own methods are not asked.
Py_ssize_t Simulator::stored_length(PyObject* obj) {
  const Py_ssize_t size = Py_SIZE(obj);
  world_.guard(GuardKind::kLength, world_.find(obj)->source, nullptr, static_cast<uint64_t>(size));
  return size;
}

SymValue Simulator::stored_item(PyObject* obj, Py_ssize_t index) {
  const bool tuple = PyTuple_Check(obj);
  return world_.wrap(
      tuple ? PyTuple_GET_ITEM(obj, index) : PyList_GET_ITEM(obj, index),
      world_.sources().item(tuple ? SourceKind::kTupleItem : SourceKind::kListItem, world_.find(obj)->source, index));
}

SymValue Simulator::get_item(SymValue container, SymValue key) {
  PyObject* obj = realise(container);
  const bool plain_tensor = is_tensor(obj) && !has_own_special(obj, "__getitem__");
  if (plain_tensor || is_exact_builtin_container(obj)) {
    CallArgs args{{key}, {}};
    realise(args.positional[0]);
    require_plain(args, nullptr);
    rely_on_lookup(obj, args.positional[0].get());
    const auto get = [&] { return from_real(check(PyObject_GetItem(obj, args.positional[0].get()))); };
    if (!is_tensor(obj)) return without_python(get);
    mark_location();
    return get();
  }
  if (is_typing_object(obj) && is_type_argument(world_, realise(key))) {
    // typing keeps what it has made: to simulate its code would make another.
    world_.rely_on_typing_object(obj);
    return without_python([&] { return from_real(check(PyObject_GetItem(obj, key.get()))); });
  }
  if (auto result = call_special(obj, "__getitem__", {key})) return *result;
  realise(key);
  if (const Outside* outside = world_.find(obj)) {
    if (PyDict_Check(obj)) {
      PyObject* name = plain_key(*this, key);
      PyObject* item = PyDict_GetItemWithError(obj, name);
      if (item) return world_.dict_item(obj, name, item);
      if (PyErr_Occurred()) raise();
      world_.guard(GuardKind::kHasNoKey, outside->source, name);
      if (lookup_type(Py_TYPE(obj), interned("__missing__")))
        stop(StopReason::kUnsupportedValue, "__missing__ of a dict");
      raise_key_error(name);
    }
    if ((PyTuple_Check(obj) || PyList_Check(obj)) && PyIndex_Check(key.get())) {
      require_plain(CallArgs{{key}, {}}, nullptr);
      const Py_ssize_t size = stored_length(obj);
      Py_ssize_t index = PyNumber_AsSsize_t(key.get(), PyExc_IndexError);
      if (index == -1 && PyErr_Occurred()) raise();
      if (index < 0) index += size;
      if (index < 0 || index >= size)
        raise(PyExc_IndexError, PyTuple_Check(obj) ? "tuple index out of range" : "list index out of range");
      return stored_item(obj, index);
    }
    stop(StopReason::kUnsupportedValue, fmt::format("an item of '{}'", Py_TYPE(obj)->tp_name));
  }
  CallArgs args{{key}, {}};
  require_plain(args, nullptr);
  if (auto made = make_missing_item(*this, obj, key)) return *made;
  return without_python([&] { return from_real(check(PyObject_GetItem(obj, key.get()))); });
}

void Simulator::set_item(SymValue container, SymValue key, SymValue value) {
  PyObject* obj = realise(container);
  realise(key);
  is_tensor(obj) ? realise(value) : hold(value);
  CallArgs args{{key}, {}};
  const bool plain_tensor = is_tensor(obj) && !has_own_special(obj, "__setitem__");
  if (plain_tensor || is_exact_builtin_container(obj)) {
    require_plain(args, nullptr);
    rely_on_lookup(obj, key.get());
    if (is_tensor(obj)) mark_location();
    if (PyList_CheckExact(obj) && PySlice_Check(key.get())) value = as_fast_sequence(std::move(value));
    require_item_survives(obj, key.get());
    if (!is_tensor(obj)) world_.note_changed(obj);
    check_status(PyObject_SetItem(obj, key.get(), value.get()));
    return;
  }
  if (call_special(obj, "__setitem__", {key, value})) return;
  if (is_outside_opaque(obj)) return replace_outside_item(obj, key.get(), value);
  require_plain(args, nullptr);
  rely_on_lookup(obj, key.get());
  check_status(PyObject_SetItem(obj, key.get(), value.get()));
}

void Simulator::delete_item(SymValue container, SymValue key) {
  PyObject* obj = realise(container);
  realise(key);
  if (!is_exact_builtin_container(obj)) {
    if (call_special(obj, "__delitem__", {key})) return;
    if (is_outside_opaque(obj))
      stop(StopReason::kUnsupportedValue, fmt::format("item deletion from '{}'", Py_TYPE(obj)->tp_name));
  }
  CallArgs args{{key}, {}};
  require_plain(args, nullptr);
  rely_on_lookup(obj, key.get());
  require_item_survives(obj, key.get());
  if (!is_tensor(obj)) world_.note_changed(obj);
  refuse_hole_after_clear(obj);
  check_status(PyObject_DelItem(obj, key.get()));
  if (PyDict_Check(obj)) world_.note_removed(obj, World::Removal::kDeleted, key.get());
}

bool Simulator::contains(SymValue container, SymValue item) {
  PyObject* obj = realise(container);
  if ((!is_exact_builtin_container(obj) || is_outside_opaque(obj)) && !is_tensor(obj)) {
    if (auto result = call_special(obj, "__contains__", {item})) return truth(*result);
    realise(item);
    if (const Outside* outside = world_.find(obj)) {
      if (PyDict_Check(obj)) {
        PyObject* key = plain_key(*this, item);
        int found = PyDict_Contains(obj, key);
        check_status(found);
        if (found)
          world_.guard(GuardKind::kNotUnbound,
                       world_.sources().keyed(SourceKind::kDictItem, outside->source, world_.pool().add(key)));
        else
          world_.guard(GuardKind::kHasNoKey, outside->source, key);
        return found == 1;
      }
      stop(StopReason::kUnsupportedValue, fmt::format("membership in '{}'", Py_TYPE(obj)->tp_name));
    }
    const auto* sequence = Py_TYPE(obj)->tp_as_sequence;
    const auto iter = sequence && sequence->sq_contains ? nullptr : lookup_type(Py_TYPE(obj), interned("__iter__"));
    if (iter && PyFunction_Check(iter)) {
      const bool needle_first = bytecode::traits(frame().code->version).needle_first;
      SymValue iterator = get_iter(container);
      while (auto each = next(iterator)) {
        if (is_same(*each, item)) return true;
        SymValue equal = needle_first ? compare(bytecode::CompareKind::kEqual, item, *each)
                                      : compare(bytecode::CompareKind::kEqual, *each, item);
        if (truth(equal)) return true;
      }
      return false;
    }
  }
  if (is_tensor(obj)) stop(StopReason::kDataDependentBranch, "membership in a tensor");
  CallArgs compared{{item}, {}};
  realise(compared.positional[0]);
  if (PyDict_CheckExact(obj) || PyAnySet_CheckExact(obj)) {
    require_plain_key(compared.positional[0].get());
    PyObject* keys = keep(check(PySequence_List(obj)));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys); ++i) require_plain_key(PyList_GET_ITEM(keys, i));
  } else {
    compared.positional.push_back(container);
    require_plain(compared, nullptr);
    rely_on_lookup(obj, compared.positional[0].get());
    rely_on_search(obj, compared.positional[0].get());
  }
  int found = PySequence_Contains(obj, compared.positional[0].get());
  check_status(found);
  return found == 1;
}

SymValue Simulator::native_iter(PyObject* items) {
  SymValue iterator(check(PyObject_GetIter(items)));
  if (is_in_body() && iterator.get() != items) note_made_in_body(iterator.get());
  // Others can always be rebuilt; a generator is closed when nothing else holds it.
  const bool is_view = PyDictViewSet_Check(items) || PyDictValues_Check(items);
  if (is_view || PyDict_Check(items) || PyAnySet_Check(items) || snapshot(items)) note_native_origin(iterator.get());
  return iterator;
}

SymValue Simulator::get_iter(SymValue iterable) {
  PyObject* obj = realise(iterable);
  if (is_in_body()) require_no_iterator(iterable);
  if ((is_exact_builtin_container(obj) && !is_outside_opaque(obj)) || is_sim_generator(obj)) {
    if (PyAnySet_CheckExact(obj)) require_known_order(*this, obj);
    return native_iter(obj);
  }
  if (is_tensor(obj) && !has_own_special(obj, "__iter__")) {
    mark_location();
    return native_iter(obj);
  }
  if (auto iterator = call_special(obj, "__iter__", {})) {
    if (!PyIter_Check(realise(*iterator))) stop(StopReason::kUnsupportedValue, "__iter__ gives no iterator");
    return *iterator;
  }
  if (world_.find(obj)) {
    if (PyDict_Check(obj)) {
      if (Py_TYPE(obj)->tp_iter != (PyODict_Check(obj) ? PyODict_Type : PyDict_Type).tp_iter)
        stop(StopReason::kUnsupportedValue, fmt::format("iteration over '{}'", Py_TYPE(obj)->tp_name));
      Ref items = check(PySequence_List(keys_of_outside(obj).get()));  // one of its own: all empty tuples are one
      note_snapshot(items.get(), obj, builtin("iter"));
      return native_iter(items.get());
    }
    if (PyTuple_Check(obj) || PyList_Check(obj)) {
      Ref items = check(PyList_New(0));
      const Py_ssize_t size = stored_length(obj);
      for (Py_ssize_t i = 0; i < size; ++i) {
        SymValue item = stored_item(obj, i);
        check_status(PyList_Append(items.get(), hold(item)));
      }
      note_snapshot(items.get(), obj, builtin("iter"));
      return native_iter(items.get());
    }
    if (!Py_TYPE(obj)->tp_iter && !PySequence_Check(obj)) return native_iter(obj);  // says so
    // next() stops on it. A text of a class with __next__ is iterated as a text all the same.
    PyObject* next = lookup_type(Py_TYPE(obj), interned("__next__"));
    const bool is_own_iterator = Py_TYPE(obj)->tp_iter == PyObject_SelfIter || !next || !PyFunction_Check(next);
    if (PyIter_Check(obj) && is_own_iterator) return iterable;
    stop(StopReason::kUnsupportedValue, fmt::format("iteration over '{}'", Py_TYPE(obj)->tp_name));
  }
  if (PyObject* method = lookup_type(Py_TYPE(obj), interned("__getitem__"));
      method && PyFunction_Check(method) && !Py_TYPE(obj)->tp_iter)
    stop(StopReason::kUnsupportedValue, "iteration by __getitem__");
  return native_iter(obj);
}

void Simulator::note_snapshot(PyObject* items, PyObject* container, PyObject* view) {
  keep(Ref::borrow(items));
  snapshots_[items] = {container, view};
}

const Simulator::Snapshot* Simulator::snapshot(PyObject* items) const {
  auto found = snapshots_.find(items);
  return found == snapshots_.end() ? nullptr : &found->second;
}

// The present StopIteration is taken; its value goes to `stop_value`.
static void take_stop_iteration(SymValue* stop_value) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Ref held_type = Ref::steal(type), held = Ref::steal(value), held_traceback = Ref::steal(traceback);
  if (stop_value) *stop_value = SymValue(Ref::steal(PyObject_GetAttrString(held.get(), "value")));
}

std::optional<SymValue> Simulator::next(SymValue& iterator, SymValue* stop_value) {
  PyObject* obj = realise(iterator);
  if (is_outside_opaque(obj) && !lookup_type(Py_TYPE(obj), interned("__next__")))
    stop(StopReason::kOutsideIterator, Py_TYPE(obj)->tp_name);
  if (SimFrame* generator = sim_generator_frame(obj)) return resume_generator(*generator, SymValue::borrow(Py_None));
  if (PyObject* method = lookup_type(Py_TYPE(obj), interned("__next__")); method && PyFunction_Check(method)) {
    try {
      return call_special(obj, "__next__", {});
    } catch (const PythonRaised&) {
      if (!PyErr_ExceptionMatches(PyExc_StopIteration)) throw;
      take_stop_iteration(stop_value);
      return std::nullopt;
    }
  }
  if (is_outside_opaque(obj)) stop(StopReason::kOutsideIterator, Py_TYPE(obj)->tp_name);
  if (has_python_specials(obj))
    stop(StopReason::kUnsupportedValue, fmt::format("__next__ of '{}'", Py_TYPE(obj)->tp_name));
  if (!PyIter_Check(obj)) raise(PyExc_TypeError, fmt::format("'{}' object is not an iterator", Py_TYPE(obj)->tp_name));
  mark_location();
  SymValue item = without_python([&]() -> SymValue {
    Ref found = Ref::steal(Py_TYPE(obj)->tp_iternext(obj));
    if (found) return from_real(std::move(found));
    if (PyErr_Occurred() && (crossing_ || !PyErr_ExceptionMatches(PyExc_StopIteration))) raise();
    return {};
  });
  if (!item.null()) return item;
  if (PyErr_Occurred()) take_stop_iteration(stop_value);
  return std::nullopt;
}

// The interpreter words its errors by where the star stands.
std::vector<SymValue> Simulator::collect_starred(SymValue iterable) {
  PyObject* obj = realise(iterable);
  if (!Py_TYPE(obj)->tp_iter && !PySequence_Check(obj))
    stop(StopReason::kUnsupportedValue, fmt::format("a star before a '{}'", Py_TYPE(obj)->tp_name));
  return collect(std::move(iterable));
}

std::vector<SymValue> Simulator::collect(SymValue iterable) {
  std::vector<SymValue> items;
  PyObject* obj = realise(iterable);
  if (PyTuple_CheckExact(obj) || PyList_CheckExact(obj)) {
    Py_ssize_t size = PySequence_Fast_GET_SIZE(obj);
    for (Py_ssize_t i = 0; i < size; ++i) items.push_back(SymValue::borrow(PySequence_Fast_GET_ITEM(obj, i)));
    return items;
  }
  SymValue iterator = get_iter(iterable);
  ask_length_hint(std::move(iterable));
  while (auto item = next(iterator)) items.push_back(std::move(*item));
  return items;
}

// As PyObject_LengthHint, which takes a TypeError for "not known".
void Simulator::ask_length_hint(SymValue iterable) {
  PyObject* obj = realise(iterable);
  if (!(Py_TYPE(obj)->tp_flags & Py_TPFLAGS_HEAPTYPE) || is_tensor(obj)) return;
  std::optional<SymValue> hint;
  try {
    PyObject* method = lookup_type(Py_TYPE(obj), interned("__len__"));
    if (method && is_c_method(method)) return;
    if (method && method != Py_None) return static_cast<void>(length(iterable));
    hint = call_special(obj, "__length_hint__", {});
  } catch (const PythonRaised&) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw;
    return PyErr_Clear();
  }
  if (!hint || realise(*hint) == Py_NotImplemented) return;
  PyObject* expected = hint->get();
  if (!PyLong_Check(expected))
    raise(PyExc_TypeError, fmt::format("__length_hint__ must be an integer, not {}", Py_TYPE(expected)->tp_name));
  const Py_ssize_t size = PyLong_AsSsize_t(expected);
  if (size == -1 && PyErr_Occurred()) raise();
  if (size < 0) raise(PyExc_ValueError, "__length_hint__() should return >= 0");
}

SymValue Simulator::as_fast_sequence(SymValue items) {
  PyObject* obj = realise(items);
  const bool iterable = Py_TYPE(obj)->tp_iter || PySequence_Check(obj);
  if (!iterable || PyList_CheckExact(obj) || PyTuple_CheckExact(obj)) return items;
  Ref list = check(PyList_New(0));
  for (SymValue& item : collect(get_iter(std::move(items)))) check_status(PyList_Append(list.get(), realise(item)));
  return SymValue(std::move(list));
}

}  // namespace framejit
