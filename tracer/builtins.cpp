// Builtins whose meaning depends on attributes, iteration or truth of simulated objects.
#include "tracer/builtins.h"

#include "tracer/attributes.h"
#include "tracer/library.h"
#include "tracer/library_code.h"
#include "tracer/proxies.h"

namespace framejit::builtins {

namespace {

void expect(Simulator& sim, const CallArgs& args, size_t at_least, size_t at_most, const char* name) {
  if (args.has_keywords() || args.count() < at_least || args.count() > at_most)
    sim.stop(StopReason::kUnknownCall, fmt::format("{} with {} arguments", name, args.count()));
}

PyObject* attribute_name(Simulator& sim, SymValue& name) {
  PyObject* obj = sim.realise(name);
  if (!PyUnicode_Check(obj))  // an error with the words of the version
    sim.stop(StopReason::kUnsupportedAttribute, "a name of an attribute that is no string");
  if (sim.has_python_specials(obj))
    sim.stop(StopReason::kUnsupportedValue, "a name of an attribute with its own methods");
  sim.world().rely_on_hashed_value(obj);
  return obj;
}

// Its text names a class: all that the text may say of it.
void rely_on_names(Simulator& sim, PyTypeObject* type) {
  for (const char* name : {"__name__", "__qualname__", "__module__"}) {
    SymValue part = sim.load_attr(SymValue::borrow(reinterpret_cast<PyObject*>(type)), name);
    sim.realise(part);
  }
}

// The text of an object comes from neither Python code of its type nor its address. `outer`: the containers around it.
bool has_plain_text(Simulator& sim, PyObject* obj, std::vector<PyObject*>& outer) {
  if (is_plain_data(obj)) return true;
  if (sim.is_tensor(obj)) sim.stop(StopReason::kDataDependentValue, "the text of a tensor");
  sim.world().rely_on_identity(obj);
  if (PyModule_Check(obj)) return false;  // it looks into the module's dictionary
  if (PyType_Check(obj)) rely_on_names(sim, reinterpret_cast<PyTypeObject*>(obj));
  if (PyType_Check(obj) || is_identity_constant(obj)) return true;
  if (PyExceptionInstance_Check(obj)) {
    rely_on_names(sim, Py_TYPE(obj));
    return !sim.is_outside_opaque(obj);
  }
  if (std::find(outer.begin(), outer.end(), obj) != outer.end()) return true;  // it holds itself
  outer.push_back(obj);
  bool plain = true;
  if (PyTuple_CheckExact(obj) || PyList_CheckExact(obj)) {
    for (Py_ssize_t i = 0; plain && i < PySequence_Fast_GET_SIZE(obj); ++i)
      plain = has_plain_text(sim, PySequence_Fast_GET_ITEM(obj, i), outer);
  } else if (PyDict_CheckExact(obj)) {
    PyObject *key, *value;
    for (Py_ssize_t pos = 0; plain && PyDict_Next(obj, &pos, &key, &value);)
      plain = has_plain_text(sim, key, outer) && has_plain_text(sim, value, outer);
  } else {
    plain = PySet_Check(obj) && !sim.is_outside_opaque(obj);
  }
  outer.pop_back();
  return plain;
}

bool has_plain_text(Simulator& sim, PyObject* obj) {
  std::vector<PyObject*> outer;
  return has_plain_text(sim, obj, outer);
}

// C code refuses what a special method of the wrong type gives, or warns: that is left to it.
SymValue of_type(Simulator& sim, SymValue value, PyTypeObject* type, const char* method) {
  if (Py_TYPE(sim.realise(value)) != type)
    sim.stop(StopReason::kUnsupportedValue, fmt::format("{} gives a '{}'", method, Py_TYPE(value.get())->tp_name));
  return value;
}

SymValue text_by(Simulator& sim, SymValue value, const char* const* methods, PyObject* callable, CallArgs args) {
  PyObject* obj = sim.realise(value);
  if (!has_plain_text(sim, obj)) {
    for (; *methods; ++methods) {
      if (auto result = sim.call_special(obj, *methods, {})) return of_type(sim, *result, &PyUnicode_Type, *methods);
      // object.__str__ goes on to __repr__, that of another C type does not.
      PyObject* name = interned(*methods);
      if (sim.lookup_type(Py_TYPE(obj), name) != _PyType_Lookup(&PyBaseObject_Type, name)) break;
    }
    if (PyUnicode_Check(obj) && !sim.is_outside_opaque(obj)) return sim.call_c(callable, args);
    sim.stop(StopReason::kUnsupportedValue, fmt::format("the text of a '{}'", Py_TYPE(obj)->tp_name));
  }
  return sim.call_c(callable, args);
}

}  // namespace

SymValue call_getattr(Simulator& sim, PyObject*, CallArgs args) {
  expect(sim, args, 2, 3, "getattr");
  PyObject* name = attribute_name(sim, args.positional[1]);
  if (args.count() == 2) return sim.load_attr(args.positional[0], name);
  auto found = sim.find_attr(args.positional[0], name);
  return found ? *found : args.positional[2];
}

SymValue call_hasattr(Simulator& sim, PyObject*, CallArgs args) {
  expect(sim, args, 2, 2, "hasattr");
  return SymValue::of_bool(sim.find_attr(args.positional[0], attribute_name(sim, args.positional[1])).has_value());
}

SymValue call_setattr(Simulator& sim, PyObject*, CallArgs args) {
  expect(sim, args, 3, 3, "setattr");
  sim.store_attr(args.positional[0], attribute_name(sim, args.positional[1]), args.positional[2]);
  return SymValue::borrow(Py_None);
}

SymValue call_delattr(Simulator& sim, PyObject*, CallArgs args) {
  expect(sim, args, 2, 2, "delattr");
  sim.delete_attr(args.positional[0], attribute_name(sim, args.positional[1]));
  return SymValue::borrow(Py_None);
}

SymValue call_len(Simulator& sim, PyObject*, CallArgs args) {
  expect(sim, args, 1, 1, "len");
  return SymValue(sim.check(PyLong_FromSsize_t(sim.length(args.positional[0]))));
}

SymValue call_iter(Simulator& sim, PyObject* callable, CallArgs args) {
  expect(sim, args, 1, 2, "iter");
  if (args.count() == 1) return sim.get_iter(args.positional[0]);
  sim.realise(args.positional[1]);
  sim.require_plain(CallArgs{{args.positional[1]}, {}}, callable);
  args.positional[0] = sim.as_c_callback(std::move(args.positional[0]));
  return sim.call_c(callable, args);
}

SymValue call_next(Simulator& sim, PyObject*, CallArgs args) {
  expect(sim, args, 1, 2, "next");
  if (auto item = sim.next(args.positional[0])) return *item;
  if (args.count() == 2) return args.positional[1];
  if (SimFrame* generator = sim_generator_frame(args.positional[0].get()))
    set_stop_iteration(sim, *generator);
  else
    PyErr_SetNone(PyExc_StopIteration);
  sim.raise();
}

SymValue call_super(Simulator& sim, PyObject* callable, CallArgs args) {
  if (args.count() == 0) {
    SimFrame& frame = sim.frame();
    const bytecode::DecodedCode& code = *frame.code;
    SymValue self = code.arg_count ? sim.slot(frame, 0) : SymValue();
    bool in_cell = code.arg_count && code.slots[0].is_cell;
    for (size_t i = 0; i < code.slots.size(); ++i)
      if (code.slots[i].from_arg == 0 && self.null()) {
        self = sim.slot(frame, i);
        in_cell = code.slots[i].is_cell;
      }
    if (!self.null() && in_cell && PyCell_Check(self.get())) self = sim.load_cell(self.get(), code.slot_name(0));
    SymValue cls;
    for (size_t i = 0; i < code.slots.size(); ++i)
      if (code.slots[i].is_free && PyUnicode_CompareWithASCIIString(code.slot_name(i), "__class__") == 0)
        cls = sim.load_cell(sim.slot(frame, i).get(), code.slot_name(i));
    if (self.null() || cls.null()) sim.raise(PyExc_RuntimeError, "super(): no arguments");
    args.positional = {cls, self};
  }
  expect(sim, args, 2, 2, "super");
  return sim.call_c(callable, args);
}

SymValue call_type_of(Simulator& sim, PyObject*, CallArgs args) {
  expect(sim, args, 1, 1, "type");
  if (sim.is_number(args.positional[0])) return SymValue::borrow(reinterpret_cast<PyObject*>(&PyFloat_Type));
  return SymValue::borrow(reinterpret_cast<PyObject*>(type_seen(sim.realise(args.positional[0]))));
}

SymValue call_bool(Simulator& sim, PyObject*, CallArgs args) {
  expect(sim, args, 0, 1, "bool");
  return SymValue::of_bool(args.count() == 1 && sim.truth(args.positional[0]));
}

SymValue call_number(Simulator& sim, PyObject* callable, CallArgs args) {
  if (args.count() == 0) return sim.call_c(callable, args);
  const bool to_int = callable == reinterpret_cast<PyObject*>(&PyLong_Type);
  const bool one_to_float = !to_int && args.count() == 1 && !args.has_keywords();
  if (one_to_float && sim.is_number(args.positional[0])) return args.positional[0];
  PyObject* obj = sim.realise(args.positional[0]);
  if (sim.is_tensor(obj)) {
    // Newer torch warns of the history that is lost, which a call for the trace would do as well; item() does not.
    const Ref has_history = sim.check(PyObject_GetAttrString(obj, "requires_grad"));
    if (has_history.get() == Py_True)
      sim.stop(StopReason::kDataDependentValue, to_int ? "int() of a tensor" : "float() of a tensor");
    const auto number = one_to_float ? sim.number_of(obj) : std::nullopt;
    return number ? *number : sim.call_c(callable, args);
  }
  const char* method = to_int ? "__int__" : "__float__";
  const bool alone = args.count() == 1 && !args.has_keywords();
  if (alone)
    if (auto result = sim.call_special(obj, method, {}))
      return of_type(sim, *result, to_int ? &PyLong_Type : &PyFloat_Type, method);
  if (alone && !sim.lookup_type(Py_TYPE(obj), interned(method)))
    if (auto result = sim.call_special(obj, "__index__", {}))
      return sim.call(SymValue::borrow(callable), {of_type(sim, *result, &PyLong_Type, "__index__")});
  sim.require_plain(args, callable);
  return sim.call_c(callable, args);
}

SymValue call_str(Simulator& sim, PyObject* callable, CallArgs args) {
  static const char* const kMethods[] = {"__str__", "__repr__", nullptr};
  if (args.count() != 1) return sim.call_c(callable, args);
  return text_by(sim, args.positional[0], kMethods, callable, args);
}

SymValue call_repr(Simulator& sim, PyObject* callable, CallArgs args) {
  static const char* const kMethods[] = {"__repr__", nullptr};
  expect(sim, args, 1, 1, "repr");
  return text_by(sim, args.positional[0], kMethods, callable, args);
}

SymValue call_format(Simulator& sim, PyObject* callable, CallArgs args) {
  expect(sim, args, 1, 2, "format");
  PyObject* obj = sim.realise(args.positional[0]);
  if (sim.is_tensor(obj)) sim.stop(StopReason::kDataDependentValue, "a tensor is formatted");
  SymValue spec = args.count() == 2 ? args.positional[1] : SymValue(sim.check(PyUnicode_FromString("")));
  if (!PyUnicode_Check(sim.realise(spec))) return sim.call_c(callable, args);  // says that it must be text
  if (auto result = sim.call_special(obj, "__format__", {spec}))
    return of_type(sim, *result, &PyUnicode_Type, "__format__");
  if (has_plain_text(sim, obj)) return sim.call_c(callable, args);
  // Without a format __str__ is asked. Else texts and numbers write their value, and object.__format__ refuses it.
  static PyObject* const name = interned("__format__");
  const bool refuses = sim.lookup_type(Py_TYPE(obj), name) == _PyType_Lookup(&PyBaseObject_Type, name);
  const bool is_value = PyUnicode_Check(obj) || PyLong_Check(obj) || PyFloat_Check(obj) || PyComplex_Check(obj);
  const bool has_format = PyUnicode_GET_LENGTH(spec.get()) != 0;
  if (has_format && refuses) return sim.call_c(callable, args);
  if ((has_format && is_value && sim.is_outside_opaque(obj)) || (!is_value && !refuses))
    sim.stop(StopReason::kUnsupportedValue, fmt::format("a '{}' is formatted", Py_TYPE(obj)->tp_name));
  if (has_format) return sim.call_c(callable, args);
  PyObject* str = reinterpret_cast<PyObject*>(&PyUnicode_Type);
  CallArgs text_args{{args.positional[0]}, {}};
  args.positional[0] = call_str(sim, str, text_args);
  return sim.call_c(callable, args);
}

// What a dictionary is filled from, as C code may read it: another, an object with keys() and items, or pairs.
static SymValue dict_source(Simulator& sim, SymValue source, bool ordered) {
  PyObject* obj = sim.realise(source);
  if (PyDict_CheckExact(obj)) return sim.as_c_iterable(source);
  if (PyDict_Check(obj) && !sim.has_python_specials(obj)) {
    PyObject* keys = sim.lookup_type(Py_TYPE(obj), interned("keys"));
    const bool is_asked = ordered || Py_TYPE(obj)->tp_iter != PyDict_Type.tp_iter;
    if (!is_asked || (keys && is_descriptor_of_c(keys))) return sim.as_c_iterable(source);
  }
  // As dict_merge: keys() and items are asked of what iterates in a way of its own, no method of others.
  // An OrderedDict asks all but dictionaries proper.
  if (!ordered && PyDict_Check(obj) && Py_TYPE(obj)->tp_iter == PyDict_Type.tp_iter)
    return sim.world().find(obj) ? SymValue(sim.snapshot_dict_items(obj)) : source;
  auto keys = sim.find_attr(source, interned("keys"));
  if (!keys) return sim.as_c_iterable(source);
  Ref dict = sim.check(PyDict_New());
  for (SymValue& key : sim.collect(sim.get_iter(sim.call(*keys, CallArgs{})))) {
    SymValue value = sim.get_item(source, key);
    sim.require_plain_key(sim.realise(key));
    sim.check_status(PyDict_SetItem(dict.get(), key.get(), sim.realise(value)));
  }
  return SymValue(std::move(dict));
}

static bool fills_ordered_dict(PyObject* callable) {
  PyTypeObject* type = PyType_Check(callable) ? reinterpret_cast<PyTypeObject*>(callable) : PyDescr_TYPE(callable);
  return PyType_IsSubtype(type, &PyODict_Type);
}

SymValue call_dict(Simulator& sim, PyObject* callable, CallArgs args) {
  const size_t source = PyType_Check(callable) ? 0 : 1;  // a method has self in front
  if (args.positional.size() == source + 1)
    args.positional[source] = dict_source(sim, std::move(args.positional[source]), fills_ordered_dict(callable));
  return sim.call_c(callable, args);
}

// False where the item's error ends an iteration, as in reversed_next.
static bool append_item(Simulator& sim, PyObject* list, const SymValue& container, Py_ssize_t index) {
  try {
    SymValue item = sim.get_item(container, SymValue(sim.check(PyLong_FromSsize_t(index))));
    sim.check_status(PyList_Append(list, sim.realise(item)));
    return true;
  } catch (const PythonRaised&) {
    const bool ends = PyErr_ExceptionMatches(PyExc_IndexError) || PyErr_ExceptionMatches(PyExc_StopIteration);
    PyErr_Clear();
    if (!ends) sim.stop(StopReason::kUnsupportedValue, "reversed by a __getitem__ that raises");
    return false;
  }
}

SymValue call_reversed(Simulator& sim, PyObject* callable, CallArgs args) {
  expect(sim, args, 1, 1, "reversed");
  PyObject* obj = sim.realise(args.positional[0]);
  if (auto result = sim.call_special(obj, "__reversed__", {})) return *result;
  if (PyObject* method = sim.lookup_type(Py_TYPE(obj), interned("__getitem__")); method && PyFunction_Check(method)) {
    if (!is_library_namespace(PyFunction_GET_GLOBALS(method)))  // it is called item by item, as the loop goes on
      sim.stop(StopReason::kUnsupportedValue, "reversed by __getitem__");
    Ref list = sim.check(PyList_New(0));
    for (Py_ssize_t i = sim.length(args.positional[0]); i-- > 0;)
      if (!append_item(sim, list.get(), args.positional[0], i)) break;
    return sim.get_iter(SymValue(std::move(list)));
  }
  if (sim.is_outside_opaque(obj)) sim.stop(StopReason::kUnsupportedValue, "reversed of an object of the program");
  return sim.call_c(callable, args);
}

// Where an object stands in memory is known of those alone that nothing else stands for while capturing, and worth a
// guard of those that may be the same in the next call.
void rely_on_address(Simulator& sim, PyObject* obj) {
  const bool constant =
      obj == Py_None || PyBool_Check(obj) || (is_identity_constant(obj) && !sim.made_constants().count(obj));
  const Outside* outside = sim.is_outside_opaque(obj) ? sim.world().find(obj) : nullptr;
  if (outside && !sim.world().comes_with_the_frame(outside->source))
    sim.world().guard(graph::GuardKind::kIdIs, outside->source, obj);
  else if (outside || !constant)
    sim.stop(StopReason::kUnknownCall, fmt::format("the address of a '{}'", Py_TYPE(obj)->tp_name));
}

SymValue call_id(Simulator& sim, PyObject* callable, CallArgs args) {
  if (args.positional.size() == 1) rely_on_address(sim, sim.realise(args.positional[0]));
  return sim.call_c(callable, args);
}

// Of a container it is made from those of its elements.
void rely_on_hash(Simulator& sim, PyObject* obj, std::unordered_set<PyObject*>& seen) {
  if (!seen.insert(obj).second) return;
  if (is_plain_data(obj) || Py_TYPE(obj)->tp_hash == PyObject_HashNotImplemented) return;
  sim.require_plain_key(obj);
  if (!PyTuple_CheckExact(obj) && !PyFrozenSet_CheckExact(obj)) return rely_on_address(sim, obj);
  PyObject* items = sim.keep(sim.check(PySequence_Tuple(obj)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items); ++i) rely_on_hash(sim, PyTuple_GET_ITEM(items, i), seen);
}

// As slot_tp_hash: a number that fits is the hash itself.
SymValue hash_value(Simulator& sim, SymValue& number) {
  PyObject* obj = sim.realise(number);
  if (!PyLong_Check(obj)) sim.raise(PyExc_TypeError, "__hash__ method should return an integer");
  Py_ssize_t hash = PyLong_AsSsize_t(obj);
  if (hash == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    hash = PyObject_Hash(obj);
  }
  return SymValue(sim.check(PyLong_FromSsize_t(hash == -1 ? -2 : hash)));
}

SymValue call_hash(Simulator& sim, PyObject* callable, CallArgs args) {
  if (args.positional.size() == 1) {
    PyObject* obj = sim.realise(args.positional[0]);
    if (auto result = sim.call_special(obj, "__hash__", {})) return hash_value(sim, *result);
    std::unordered_set<PyObject*> seen;
    rely_on_hash(sim, obj, seen);
  }
  return sim.call_c(callable, args);
}

SymValue call_with_traceback(Simulator& sim, PyObject*, CallArgs args) {
  expect(sim, args, 2, 2, "with_traceback");
  sim.set_traceback(sim.realise(args.positional[0]), args.positional[1]);
  return args.positional[0];
}

SymValue call_vars(Simulator& sim, PyObject*, CallArgs args) {
  if (args.count() != 1) sim.stop(StopReason::kUnknownCall, "vars of the frame");
  if (auto dict = sim.find_attr(args.positional[0], interned("__dict__"))) return std::move(*dict);
  sim.raise(PyExc_TypeError, "vars() argument must have __dict__ attribute");
}

SymValue call_callable(Simulator& sim, PyObject*, CallArgs args) {
  expect(sim, args, 1, 1, "callable");
  PyObject* obj = sim.realise(args.positional[0]);
  sim.lookup_type(Py_TYPE(obj), interned("__call__"));  // it may get one
  return SymValue::of_bool(PyCallable_Check(obj));
}

SymValue call_object_getattribute(Simulator& sim, PyObject*, CallArgs args) {
  expect(sim, args, 2, 2, "object.__getattribute__");
  // It looks into the dictionary of the class alone, after its metaclass.
  if (PyType_Check(sim.realise(args.positional[0])))
    sim.stop(StopReason::kUnsupportedAttribute, "object.__getattribute__ of a class");
  if (sim.is_tensor(args.positional[0].get()))
    return load_tensor_attr_without_hooks(sim, args.positional[0], attribute_name(sim, args.positional[1]));
  return sim.generic_load_attr(args.positional[0], attribute_name(sim, args.positional[1]), false);
}

SymValue call_object_setattr(Simulator& sim, PyObject*, CallArgs args) {
  expect(sim, args, 3, 3, "object.__setattr__");
  if (PyType_Check(sim.realise(args.positional[0])))
    sim.stop(StopReason::kGlobalMutation, "an attribute of a class is set");
  if (sim.is_tensor(args.positional[0].get()))
    sim.stop(StopReason::kUnsupportedAttribute, "object.__setattr__ of a tensor");
  sim.generic_store_attr(args.positional[0], attribute_name(sim, args.positional[1]), args.positional[2]);
  return SymValue::borrow(Py_None);
}

SymValue call_object_delattr(Simulator& sim, PyObject*, CallArgs args) {
  expect(sim, args, 2, 2, "object.__delattr__");
  PyObject* obj = sim.realise(args.positional[0]);
  if (PyType_Check(obj)) sim.stop(StopReason::kGlobalMutation, "an attribute of a class is deleted");
  sim.generic_delete_attr(obj, attribute_name(sim, args.positional[1]));
  return SymValue::borrow(Py_None);
}

SymValue call_object_init(Simulator& sim, PyObject*, CallArgs args) {
  // With more than self CPython raises unless __new__ is overridden; then they are ignored.
  PyTypeObject* type = args.count() > 0 ? Py_TYPE(sim.realise(args.positional[0])) : &PyBaseObject_Type;
  const bool ignored = type->tp_init == PyBaseObject_Type.tp_init && type->tp_new != PyBaseObject_Type.tp_new;
  if ((args.count() != 1 || args.has_keywords()) && !ignored)
    sim.stop(StopReason::kUnsupportedValue, fmt::format("'{}' takes no arguments", type->tp_name));
  return SymValue::borrow(Py_None);
}

SymValue call_object_new(Simulator& sim, PyObject* callable, CallArgs args) {
  if (args.count() < 1 || !PyType_Check(sim.realise(args.positional[0])))
    sim.raise(PyExc_TypeError, "object.__new__(X): X is not a type object");
  auto* type = reinterpret_cast<PyTypeObject*>(args.positional[0].get());
  CallArgs only{{args.positional[0]}, {}};
  const bool ignored = type->tp_new == PyBaseObject_Type.tp_new && type->tp_init != PyBaseObject_Type.tp_init;
  if ((args.count() != 1 || args.has_keywords()) && !ignored)
    sim.stop(StopReason::kUnsupportedValue, fmt::format("'{}' takes no arguments", type->tp_name));
  if (type->tp_flags & Py_TPFLAGS_IS_ABSTRACT)
    sim.stop(StopReason::kUnsupportedValue, "an instance of an abstract class");
  sim.refuse_finalizer(type);
  SymValue object = sim.call_c(callable, only);
  if (sim.is_in_body()) sim.note_made_in_body(object.get());
  return object;
}

SymValue call_type_call(Simulator& sim, PyObject*, CallArgs args) {
  if (args.count() < 1 || !PyType_Check(sim.realise(args.positional[0])))
    sim.raise(PyExc_TypeError, "descriptor '__call__' requires a 'type' object");
  auto* type = reinterpret_cast<PyTypeObject*>(args.positional[0].get());
  args.positional.erase(args.positional.begin());
  return sim.construct(type, std::move(args));
}

SymValue call_list_append(Simulator& sim, PyObject*, CallArgs args) {
  expect(sim, args, 2, 2, "append");
  sim.world().require_followed(args.positional[0].get());
  sim.world().note_changed(args.positional[0].get());
  sim.check_status(PyList_Append(args.positional[0].get(), sim.hold(args.positional[1])));
  return SymValue::borrow(Py_None);
}

// What copy._deepcopy_atomic is for, before the address of it is taken as a key.
SymValue call_deepcopy(Simulator& sim, PyObject* callable, CallArgs args) {
  const bool has_memo = args.count() == 2 && PyDict_Check(sim.realise(args.positional[1]));
  if ((args.count() == 1 || has_memo) && !args.has_keywords()) {
    PyObject* obj = sim.realise(args.positional[0]);
    if (obj == Py_None || PyLong_CheckExact(obj) || PyBool_Check(obj) || PyFloat_CheckExact(obj) ||
        PyComplex_CheckExact(obj) || PyUnicode_CheckExact(obj) || PyBytes_CheckExact(obj))
      return args.positional[0];
  }
  return sim.follow_function(callable, std::move(args), false);
}

// C code copies by reading the object's state, which for an object of the program nothing would guard.
SymValue call_copy(Simulator& sim, PyObject* callable, CallArgs args) {
  static const char* const kHooks[] = {"__copy__", "__reduce_ex__", "__reduce__", "__getstate__", "__setstate__"};
  expect(sim, args, 1, 1, "copy.copy");
  PyObject* obj = sim.realise(args.positional[0]);
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(obj));
  PyObject* copier = sim.lookup_type(Py_TYPE(obj), interned("__copy__"));
  if (copier && !PyFunction_Check(copier) &&
      !is_descriptor_of_c(copier)) {  // copy.copy asks the class, and does not bind
    SymValue found = sim.load_attr(SymValue::borrow(type), "__copy__");
    if (sim.realise(found) != Py_None) return sim.call(std::move(found), {SymValue::borrow(obj)});
    sim.stop(StopReason::kUnsupportedValue, "a class whose __copy__ is None");
  }
  if (auto result = sim.call_special(obj, "__copy__", {})) return *result;
  for (const char* hook : kHooks)
    if (PyObject* found = sim.lookup_type(Py_TYPE(obj), interned(hook)); found && !is_descriptor_of_c(found))
      sim.stop(StopReason::kUnknownCall, "copy.copy of an object that copies itself");
  if (sim.is_outside_opaque(obj) && !PyFunction_Check(obj))
    sim.stop(StopReason::kUnknownCall, "copy.copy of an object of the program");
  return sim.call_c(callable, args);
}

SymValue call_function_get(Simulator& sim, PyObject*, CallArgs args) {
  expect(sim, args, 2, 3, "__get__");
  sim.realise(args.positional[0]);
  PyObject* self = sim.realise(args.positional[1]);
  if (self == Py_None) return args.positional[0];
  return SymValue(sim.check(PyMethod_New(args.positional[0].get(), self)));
}

// The guards compare the dispatch keys, which tell it of a real one.
SymValue call_is_inference(Simulator& sim, PyObject* callable, CallArgs args) {
  expect(sim, args, 1, 1, "is_inference");
  PyObject* tensor = sim.realise(args.positional[0]);
  const Outside* outside = sim.world().find(tensor);
  if (outside)
    tensor = outside->real.get();
  else if (sim.services().host.is_level_tensor(tensor))
    sim.stop(StopReason::kUnsupportedTensor, "is_inference inside of a function transform");
  return SymValue(sim.check(PyObject_CallFunctionObjArgs(callable, tensor, nullptr)));
}

SymValue call_true(Simulator&, PyObject*, CallArgs) { return SymValue::borrow(Py_True); }
SymValue call_false(Simulator&, PyObject*, CallArgs) { return SymValue::borrow(Py_False); }
SymValue call_none(Simulator&, PyObject*, CallArgs) { return SymValue::borrow(Py_None); }

}  // namespace framejit::builtins
