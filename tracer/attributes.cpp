// Attribute reads, by the interpreter's own rules (PyObject_GenericGetAttr, type_getattro, slot_tp_getattr_hook), with
// a guard for all that was looked at.
#include "tracer/attributes.h"

#include "tracer/library.h"
#include "tracer/library_code.h"
#include "tracer/proxies.h"
#include "tracer/simulator.h"

namespace framejit {

using graph::GuardKind;
using graph::SourceId;
using graph::SourceKind;

namespace {

bool is_heap_type(PyTypeObject* type) { return type->tp_flags & Py_TPFLAGS_HEAPTYPE; }

// A field of a named tuple.
bool is_tuple_getter(PyObject* descriptor) {
  return std::string_view(Py_TYPE(descriptor)->tp_name).find("_tuplegetter") != std::string_view::npos;
}

}  // namespace

PyObject* instance_dict(PyObject* obj) {
  if (PyType_Check(obj)) return nullptr;
  PyObject** slot = _PyObject_GetDictPtr(obj);
  return slot ? *slot : nullptr;
}

void no_attribute(Simulator& sim, PyObject* obj, PyObject* name) {
  PyErr_Format(PyExc_AttributeError, "'%.50s' object has no attribute '%U'", Py_TYPE(obj)->tp_name, name);
  sim.raise();
}

PyObject* Simulator::find_in_type(PyTypeObject* type, PyObject* name) {
  PyObject* found = _PyType_Lookup(type, name);
  require_none_refused();  // a key that is no string compares in Python: a guard would do so in each call
  if (is_in_backward() && is_heap_type(type))
    note_frozen(FrozenRead::Kind::kTypeAttr, reinterpret_cast<PyObject*>(type), name, found);
  return found;
}

PyObject* Simulator::lookup_type(PyTypeObject* type, PyObject* name) {
  PyObject* found = find_in_type(type, name);
  if (is_heap_type(type)) world_.rely_on_type_attr(type, name, found);
  return found;
}

PyObject* Simulator::lookup_attribute(PyTypeObject* type, PyObject* name) {
  PyObject* found = find_in_type(type, name);
  if (is_heap_type(type)) world_.rely_on_type_attr_read(type, name, found);
  return found;
}

SymValue Simulator::read_from_class(PyTypeObject* type, PyObject* name, PyObject* found) {
  SourceId source = world_.sources().constant(world_.pool().add(reinterpret_cast<PyObject*>(type)));
  return world_.wrap(found, world_.sources().keyed(SourceKind::kTypeAttr, source, world_.pool().add(name)));
}

void Simulator::guard_bases(PyTypeObject* type) {
  if (is_heap_type(type)) world_.rely_on_mro(type);
}

void rely_on_descriptor(Simulator& sim, PyObject* found) {
  if (!is_heap_type(Py_TYPE(found))) return;
  for (const char* name : {"__get__", "__set__", "__delete__"}) sim.lookup_type(Py_TYPE(found), interned(name));
}

// A guard says that it is this object; what it holds may change.
SymValue Simulator::found_in_class(PyObject* descriptor) {
  return world_.wrap(descriptor, world_.sources().constant(world_.pool().add(descriptor)));
}

// Of what C code makes for each read (numpy's `flat`) the trace would have one where the program has many.
void Simulator::require_read_in_place(PyObject* descriptor, PyObject* obj, PyObject* value) {
  if (is_plain_data(value) || is_tensor(value)) return;
  Ref again = Ref::steal(Py_TYPE(descriptor)->tp_descr_get(descriptor, obj, reinterpret_cast<PyObject*>(Py_TYPE(obj))));
  if (!again) raise();
  if (again.get() == value) return;
  const char* name = PyUnicode_AsUTF8(reinterpret_cast<PyDescrObject*>(descriptor)->d_name);
  stop(StopReason::kUnsupportedAttribute,
       fmt::format("'{}' of '{}', which is made for each read", name, Py_TYPE(obj)->tp_name));
}

SymValue Simulator::bind(PyObject* descriptor, const SymValue& owner) {
  PyObject* obj = owner.get();
  if (PyFunction_Check(descriptor)) return SymValue(check(PyMethod_New(descriptor, obj)));
  if (PyInstanceMethod_Check(descriptor))  // of classes that pybind11 makes
    return SymValue(check(PyMethod_New(PyInstanceMethod_GET_FUNCTION(descriptor), obj)));
  if (Py_TYPE(descriptor) == &PyProperty_Type) {
    Ref getter = check(PyObject_GetAttrString(descriptor, "fget"));
    if (getter.get() == Py_None) {  // the interpreter knows the words of its version
      check(Py_TYPE(descriptor)->tp_descr_get(descriptor, obj, reinterpret_cast<PyObject*>(Py_TYPE(obj))));
      FJ_CHECK(false, "a property without a getter was read");
    }
    return call(SymValue(getter), {owner});
  }
  if (Py_TYPE(descriptor) == &PyStaticMethod_Type || Py_TYPE(descriptor) == &PyClassMethod_Type) {
    Ref function = check(PyObject_GetAttrString(descriptor, "__func__"));
    if (Py_TYPE(descriptor) == &PyStaticMethod_Type) return SymValue(function);
    // Whether its __get__ is asked depends on the version.
    if (!PyFunction_Check(function.get()) && Py_TYPE(function.get())->tp_descr_get)
      stop(StopReason::kUnsupportedAttribute, fmt::format("a classmethod of a '{}'", Py_TYPE(function.get())->tp_name));
    PyTypeObject* type = PyType_Check(obj) ? reinterpret_cast<PyTypeObject*>(obj) : Py_TYPE(obj);
    return SymValue(check(PyMethod_New(function.get(), reinterpret_cast<PyObject*>(type))));
  }
  if (PyObject* get = lookup_type(Py_TYPE(descriptor), interned("__get__")); get && PyFunction_Check(get))
    return call(SymValue::borrow(get),
                {found_in_class(descriptor), owner, SymValue::borrow(reinterpret_cast<PyObject*>(Py_TYPE(obj)))});
  if (!Py_TYPE(descriptor)->tp_descr_get) return found_in_class(descriptor);
  static PyObject* class_name = interned("__class__");
  if (Py_TYPE(descriptor) == &PyGetSetDescr_Type &&
      PyUnicode_Compare(reinterpret_cast<PyDescrObject*>(descriptor)->d_name, class_name) == 0)
    return SymValue::borrow(reinterpret_cast<PyObject*>(Py_TYPE(obj)));
  bool slot = Py_TYPE(descriptor) == &PyGetSetDescr_Type || Py_TYPE(descriptor) == &PyMemberDescr_Type;
  if (slot) {
    PyObject* name = reinterpret_cast<PyDescrObject*>(descriptor)->d_name;
    if (World::OverlayRead written = world_.overlay(obj, name); written.found) {
      if (!written.value) no_attribute(*this, obj, name);
      return SymValue::borrow(written.value);
    }
    SourceId source = world_.source_of(obj);
    Ref value =
        Ref::steal(Py_TYPE(descriptor)->tp_descr_get(descriptor, obj, reinterpret_cast<PyObject*>(Py_TYPE(obj))));
    if (!value) {  // an empty slot
      require_none_refused();
      PyObject *type, *error, *traceback;
      PyErr_Fetch(&type, &error, &traceback);
      if (source.valid())
        world_.guard(GuardKind::kUnbound, world_.sources().keyed(SourceKind::kAttr, source, world_.pool().add(name)));
      PyErr_Restore(type, error, traceback);
      raise();
    }
    const bool is_dict = PyUnicode_CompareWithASCIIString(name, "__dict__") == 0;
    if (!source.valid()) {
      if (is_dict) dict_owners_[keep(value)] = keep(Ref::borrow(obj));
      return from_real(std::move(value));
    }
    if (is_dict) {
      SymValue dict = world_.wrap(value.get(), world_.sources().read(SourceKind::kInstanceDict, source));
      world_.move_writes(obj, dict.get());
      return dict;
    }
    require_read_in_place(descriptor, obj, value.get());
    return world_.wrap(keep(value), world_.sources().keyed(SourceKind::kAttr, source, world_.pool().add(name)));
  }
  // Methods of C types: bound objects; what a call of one may do is decided at the call.
  if (Py_TYPE(descriptor) == &PyMethodDescr_Type || Py_TYPE(descriptor) == &PyWrapperDescr_Type ||
      Py_TYPE(descriptor) == &PyClassMethodDescr_Type || PyCFunction_Check(descriptor))
    return SymValue(
        check(Py_TYPE(descriptor)->tp_descr_get(descriptor, obj, reinterpret_cast<PyObject*>(Py_TYPE(obj)))));
  if (Py_TYPE(descriptor) == reinterpret_cast<PyTypeObject*>(library().lru_cache_type))
    return SymValue(check(PyMethod_New(found_in_class(descriptor).get(), obj)));
  if (is_tuple_getter(descriptor) && PyTuple_Check(obj)) {
    Ref reduced = check(PyObject_CallMethod(descriptor, "__reduce__", nullptr));
    PyObject* index = PyTuple_GET_ITEM(PyTuple_GET_ITEM(reduced.get(), 1), 0);
    if (world_.find(obj)) return get_item(owner, SymValue::borrow(index));
    return SymValue(check(PySequence_GetItem(obj, PyLong_AsSsize_t(index))));
  }
  stop(StopReason::kUnsupportedAttribute, fmt::format("descriptor of type '{}'", Py_TYPE(descriptor)->tp_name));
}

// The rules of PyObject_GenericGetAttr. Empty: no such attribute (no error is set).
std::optional<SymValue> Simulator::generic_find_attr(PyObject* obj, PyObject* name) {
  PyTypeObject* type = Py_TYPE(obj);
  SymValue owner = SymValue::borrow(obj);
  PyObject* descriptor = lookup_attribute(type, name);
  if (descriptor) rely_on_descriptor(*this, descriptor);
  if (descriptor && is_data_descriptor(descriptor) && Py_TYPE(descriptor)->tp_descr_get) return bind(descriptor, owner);
  if (std::optional<SymValue> own = find_in_instance(obj, name)) return own;
  if (!descriptor) return std::nullopt;
  if (Py_TYPE(descriptor)->tp_descr_get) return bind(descriptor, owner);
  return read_from_class(type, name, descriptor);
}

std::optional<SymValue> Simulator::find_in_instance(PyObject* obj, PyObject* name) {
  World::OverlayRead written = world_.overlay(obj, name);
  if (written.found && written.value) return SymValue::borrow(written.value);
  PyObject* dict = instance_dict(obj);
  SourceId source = world_.source_of(obj);
  require_own_dict(obj, dict);
  PyObject* shadow = world_.shown_of(obj, dict);
  if (dict && !PyDict_CheckExact(dict) && world_.was_changed(dict))
    stop(StopReason::kUnsupportedAttribute, "attributes that are items of a dictionary, which was written");
  if (dict && !shadow && !services_.is_of_text(dict) && !world_.compares_keys_in_c(dict))
    stop(StopReason::kUnsupportedAttribute, "an attribute beside a key with an __eq__ of its own");
  if (!written.found && dict) {
    PyObject* value = PyDict_GetItemWithError(shadow ? shadow : dict, name);
    if (value && (shadow || !source.valid())) return SymValue::borrow(value);
    if (value) {
      SourceId dict_source = world_.sources().read(SourceKind::kInstanceDict, source);
      return world_.wrap(value, world_.sources().keyed(SourceKind::kDictItem, dict_source, world_.pool().add(name)));
    }
    if (PyErr_Occurred()) raise();
  }
  bool may_have_dict = _PyObject_GetDictPtr(obj) != nullptr;
  if (!written.found && source.valid() && may_have_dict && !shadow)
    world_.guard(GuardKind::kHasNoKey, world_.sources().read(SourceKind::kInstanceDict, source), name);
  return std::nullopt;
}

bool Simulator::is_written(PyObject* obj, PyObject* dict, PyObject* name) {
  return world_.overlay(obj, name).found || world_.shows_other(world_.shown_of(obj, dict), dict, name);
}

std::optional<SymValue> find_in_module(Simulator& sim, PyObject* module, PyObject* name) {
  World& world = sim.world();
  PyObject* dict = instance_dict(module);
  if (!dict) return std::nullopt;
  SourceId source = world.source_of(module);
  for (PyObject* table_name : module_tables()) {
    if (sim.is_written(module, dict, table_name))
      sim.stop(StopReason::kUnsupportedAttribute, "a replaced table of a module");
    PyObject* table = PyDict_GetItemWithError(dict, table_name);
    SourceId items, table_source;
    if (source.valid()) items = world.sources().read(SourceKind::kInstanceDict, source);
    if (!table) {
      if (source.valid()) world.guard(GuardKind::kHasNoKey, items, table_name);
      continue;
    }
    if (!PyDict_Check(table)) sim.stop(StopReason::kUnsupportedAttribute, "a table of a module that is no dictionary");
    if (source.valid())
      table_source = world.sources().keyed(SourceKind::kDictItem, items, world.pool().add(table_name));
    const bool of_subclass = !PyDict_CheckExact(table) && !PyODict_CheckExact(table);
    // What was changed may be this table in another call.
    if (source.valid() && (of_subclass || world.has_changed_module_table())) world.wrap(table, table_source);
    if (source.valid()) world.rely_on_table_type(table, table_source);
    PyObject* shadow = world.shown_at(table, table_source);
    if (shadow == table || of_subclass) {  // it may look names up in a way of its own
      SymValue held = SymValue::borrow(table);
      if (sim.contains(held, SymValue::borrow(name))) return sim.get_item(held, SymValue::borrow(name));
      continue;
    }
    if (shadow || !source.valid()) {
      PyObject* value = PyDict_GetItemWithError(shadow ? shadow : table, name);
      if (value) return SymValue::borrow(value);
      continue;
    }
    World::OverlayRead written = world.overlay(table, name);
    if (written.found && written.value) return SymValue::borrow(written.value);
    PyObject* value = written.found ? nullptr : PyDict_GetItemWithError(table, name);
    if (value)
      return world.wrap(value, world.sources().keyed(SourceKind::kDictItem, table_source, world.pool().add(name)));
    world.guard(GuardKind::kHasNoKey, table_source, name);
  }
  return std::nullopt;
}

SymValue Simulator::generic_load_attr(const SymValue& owner, PyObject* name, bool with_getattr_hook) {
  PyObject* obj = owner.get();
  static PyObject *const getattr = interned("__getattr__"), *const getattribute = interned("__getattribute__");
  PyObject* hook = with_getattr_hook ? lookup_type(Py_TYPE(obj), getattr) : nullptr;
  if (!with_getattr_hook) lookup_type(Py_TYPE(obj), getattribute);  // it may get one
  try {
    if (auto found = generic_find_attr(obj, name)) return *found;
  } catch (const PythonRaised&) {
    // A property that raises AttributeError falls through to __getattr__, as in the interpreter.
    if (!hook || !PyErr_ExceptionMatches(PyExc_AttributeError)) throw;
    PyErr_Clear();
  }
  if (hook) {
    if (hook == library().module_getattr) {
      if (auto found = find_in_module(*this, obj, name)) return *found;
    } else {
      if (!PyFunction_Check(hook)) stop(StopReason::kUnsupportedAttribute, "__getattr__ is no function");
      return call(SymValue::borrow(hook), {owner, SymValue::borrow(name)});
    }
  }
  if (!with_getattr_hook) lookup_type(Py_TYPE(obj), getattr);
  no_attribute(*this, obj, name);
}

// As slot_tp_getattr_hook: who has a __getattribute__ is asked for all, and __getattr__ for what it does not know.
SymValue load_by_getattribute(Simulator& sim, PyObject* hook, const SymValue& owner, PyObject* name) {
  PyObject* getattr = sim.lookup_type(Py_TYPE(owner.get()), interned("__getattr__"));
  try {
    return sim.call(SymValue::borrow(hook), {owner, SymValue::borrow(name)});
  } catch (const PythonRaised&) {
    if (!getattr || !PyErr_ExceptionMatches(PyExc_AttributeError)) throw;
    PyErr_Clear();
    return sim.call(SymValue::borrow(getattr), {owner, SymValue::borrow(name)});
  }
}

static SymValue load_type_attr(Simulator& sim, const SymValue& owner, PyObject* name) {
  auto* type = reinterpret_cast<PyTypeObject*>(owner.get());
  World& world = sim.world();
  PyTypeObject* meta = Py_TYPE(type);
  const bool is_enum = PyType_IsSubtype(meta, reinterpret_cast<PyTypeObject*>(library().enum_meta));
  if (PyObject* hook = sim.lookup_type(meta, interned("__getattribute__")); hook && PyFunction_Check(hook))
    return sim.call(SymValue::borrow(hook), {owner, SymValue::borrow(name)});
  PyObject* in_meta = sim.lookup_type(meta, name);
  if (in_meta && is_data_descriptor(in_meta)) {
    // The interpreter keeps marks of its own among them, which come and go.
    if (PyUnicode_CompareWithASCIIString(name, "__flags__") == 0)
      sim.stop(StopReason::kUnsupportedAttribute, "'__flags__' of a class");
    if (Py_TYPE(in_meta) == &PyProperty_Type) return sim.bind(in_meta, owner);
    Ref value = sim.check(PyObject_GetAttr(owner.get(), name));
    if (!is_heap_type(type)) return sim.from_outside(std::move(value));
    SourceId source = world.sources().constant(world.pool().add(owner.get()));
    return world.wrap(sim.keep(value), world.sources().keyed(SourceKind::kAttr, source, world.pool().add(name)));
  }
  PyObject* found = sim.lookup_attribute(type, name);
  if (found) {
    rely_on_descriptor(sim, found);
    if (PyFunction_Check(found)) return SymValue::borrow(found);
    if (Py_TYPE(found) == &PyClassMethod_Type || Py_TYPE(found) == &PyStaticMethod_Type) return sim.bind(found, owner);
    if (Py_TYPE(found)->tp_descr_get) {
      if (PyObject* get = sim.lookup_type(Py_TYPE(found), interned("__get__"));
          get && PyFunction_Check(get) && !(is_enum && is_code_of_enums(get)))
        return sim.call(SymValue::borrow(get), {sim.found_in_class(found), SymValue::borrow(Py_None), owner});
      return sim.from_outside(sim.check(PyObject_GetAttr(owner.get(), name)));
    }
    return sim.read_from_class(type, name, found);
  }
  if (in_meta) return Py_TYPE(in_meta)->tp_descr_get ? sim.bind(in_meta, owner) : sim.found_in_class(in_meta);
  PyObject* hook = sim.lookup_type(meta, interned("__getattr__"));
  if (hook && is_enum && is_code_of_enums(hook))
    return sim.from_outside(sim.check(PyObject_GetAttr(owner.get(), name)));
  if (hook) return sim.call(SymValue::borrow(hook), {owner, SymValue::borrow(name)});
  PyErr_Format(PyExc_AttributeError, "type object '%.50s' has no attribute '%U'", type->tp_name, name);
  sim.raise();
}

// PEP 562: a function of the program's that a module has for the names that it lacks.
static bool has_own_hook(PyObject* module_dict) {
  PyObject* hook = PyDict_GetItem(module_dict, interned("__getattr__"));
  return hook && PyFunction_Check(hook) && !is_library_namespace(PyFunction_GET_GLOBALS(hook));
}

// What makes an attribute of a module may keep it there, as torch.ops does: it is made before it is looked for.
static void make_module_attr(Simulator& sim, PyObject* module, PyObject* dict, PyObject* name) {
  if (PyDict_GetItem(dict, name) || sim.world().representation(dict) || sim.world().overlay(dict, name).found) return;
  static PyObject* const hook = interned("__getattr__");
  if (has_own_hook(dict) || (!PyDict_GetItem(dict, hook) && !_PyType_Lookup(Py_TYPE(module), hook))) return;
  if (!Ref::steal(PyObject_GetAttr(module, name))) PyErr_Clear();
}

static SymValue load_module_object_attr(Simulator& sim, const SymValue& owner, PyObject* name) {
  PyObject* dict = PyModule_GetDict(owner.get());
  if (!dict) sim.stop(StopReason::kUnsupportedAttribute, "a module that is not initialised");
  const bool annotations = PyUnicode_CompareWithASCIIString(name, "__annotations__") == 0;
  if (!annotations) make_module_attr(sim, owner.get(), dict, name);
  if (auto found = sim.read_namespace(dict, name)) return *found;
  if (annotations)
    sim.stop(StopReason::kUnsupportedAttribute, "the annotations of a module, which are made when they are read");
  if (PyObject* in_type = sim.lookup_type(Py_TYPE(owner.get()), name); in_type && is_data_descriptor(in_type)) {
    if (PyObject* get = sim.lookup_type(Py_TYPE(in_type), interned("__get__")); get && PyFunction_Check(get))
      return sim.bind(in_type, owner);
    return sim.from_outside(sim.check(PyObject_GetAttr(owner.get(), name)));
  }
  if (has_own_hook(dict)) {
    if (auto hook = sim.read_namespace(dict, interned("__getattr__")))
      return sim.call(std::move(*hook), {SymValue::borrow(name)});
    sim.stop(StopReason::kUnsupportedAttribute, "a module without the __getattr__ that it had");
  }
  // A module-level __getattr__ may import: only what it has already put in place is read.
  Ref value = Ref::steal(PyObject_GetAttr(owner.get(), name));
  if (!value) sim.raise();
  if (is_identity_constant(value.get())) return SymValue(value);
  sim.stop(StopReason::kUnsupportedAttribute,
           fmt::format("computed attribute '{}' of a module", PyUnicode_AsUTF8(name)));
}

static SymValue load_generator_attr(Simulator& sim, PyObject* generator, PyObject* name) {
  if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0)
    return SymValue::borrow(reinterpret_cast<PyObject*>(&PyGen_Type));
  for (const char* method : {"send", "throw", "close", "__next__", "__iter__"})
    if (PyUnicode_CompareWithASCIIString(name, method) == 0)
      return sim.from_real(sim.check(PyObject_GetAttr(generator, name)));
  if (_PyType_Lookup(&PyGen_Type, name))
    sim.stop(StopReason::kUnsupportedAttribute, fmt::format("'{}' of a generator", PyUnicode_AsUTF8(name)));
  no_attribute(sim, generator, name);
}

SymValue Simulator::load_attr(const SymValue& owner_value, PyObject* name) {
  SymValue owner = owner_value;
  static PyObject* append = interned("append");
  if (world_.is_unread(owner.get()) && PyUnicode_Compare(name, append) == 0)
    return SymValue(check(PyObject_GetAttr(owner.get(), name)));
  PyObject* obj = realise(owner);
  if (is_tensor(obj)) return load_tensor_attr(*this, owner, name);
  if (PyType_Check(obj)) return load_type_attr(*this, owner, name);
  if (is_sim_traceback(obj)) stop_before_raise(StopReason::kUnsupportedAttribute, sim_traceback_origin(obj));
  if (is_sim_generator(obj)) return load_generator_attr(*this, obj, name);
  if (PyContextToken_CheckExact(obj) && !world_.find(obj) && PyUnicode_CompareWithASCIIString(name, "old_value") == 0)
    return builtins::old_value(*this, obj);
  if (PyExceptionInstance_Check(obj) && PyUnicode_CompareWithASCIIString(name, "__traceback__") == 0)
    if (const BreakPoint* raised = raised_at(obj)) stop_before_raise(StopReason::kUnsupportedAttribute, *raised);
  if (PyModule_Check(obj)) {
    if (PyObject* hook = lookup_type(Py_TYPE(obj), interned("__getattribute__")); hook && PyFunction_Check(hook))
      stop(StopReason::kUnsupportedAttribute,
           fmt::format("'{}' of a module with __getattribute__", PyUnicode_AsUTF8(name)));
    return load_module_object_attr(*this, owner, name);
  }
  PyTypeObject* type = Py_TYPE(obj);
  if (type == &PySuper_Type) {
    auto [start, self] = super_parts(obj);
    return load_super_attr(start, self, name);
  }
  if (type->tp_getattro == PyObject_GenericGetAttr) {
    // Methods of plain builtin data need no guard: their types cannot change.
    if (!is_heap_type(type) && !world_.find(obj) && !PyFunction_Check(obj) && !_PyObject_GetDictPtr(obj))
      return from_real(check(PyObject_GetAttr(obj, name)));
    return generic_load_attr(owner, name, false);
  }
  if (is_heap_type(type)) {
    static PyObject* const getattribute = interned("__getattribute__");
    PyObject* hook = lookup_type(type, getattribute);
    if (hook == library().object_getattribute || !hook) return generic_load_attr(owner, name, true);
    if (PyFunction_Check(hook)) return load_by_getattribute(*this, hook, owner, name);
    if (Py_TYPE(hook) != &PyWrapperDescr_Type)
      stop(StopReason::kUnsupportedAttribute, "__getattribute__ is no function");
  }
  if (PyMethod_Check(obj)) {
    auto [function, self] = method_parts(obj);
    if (PyUnicode_CompareWithASCIIString(name, "__self__") == 0) return self;
    if (PyUnicode_CompareWithASCIIString(name, "__func__") == 0) return function;
    if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0)
      return SymValue::borrow(reinterpret_cast<PyObject*>(&PyMethod_Type));
    // What the type has comes before what the function has, whose text it shows as its own.
    if (PyUnicode_CompareWithASCIIString(name, "__doc__") != 0 && _PyType_Lookup(&PyMethod_Type, name))
      stop(StopReason::kUnsupportedAttribute, fmt::format("'{}' of a method", PyUnicode_AsUTF8(name)));
    return load_attr(function, name);
  }
  if (!world_.find(obj)) return from_outside(check(PyObject_GetAttr(obj, name)));
  stop(StopReason::kUnsupportedAttribute, fmt::format("'{}' of '{}'", PyUnicode_AsUTF8(name), type->tp_name));
}

SymValue Simulator::load_attr(const SymValue& owner, const char* name) { return load_attr(owner, interned(name)); }

std::optional<SymValue> Simulator::find_attr(const SymValue& owner, PyObject* name) {
  try {
    return load_attr(owner, name);
  } catch (const PythonRaised&) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw;
    PyErr_Clear();
    return std::nullopt;
  }
}

SymValue Simulator::load_super_attr(PyTypeObject* start, const SymValue& self, PyObject* name) {
  if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0)  // as super_getattro: the super object's own
    return SymValue::borrow(reinterpret_cast<PyObject*>(&PySuper_Type));
  PyObject* obj = self.get();
  world_.require_followed(obj);
  bool on_class = PyType_Check(obj) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(obj), start);
  PyTypeObject* type = on_class ? reinterpret_cast<PyTypeObject*>(obj) : Py_TYPE(obj);
  PyObject* mro = type->tp_mro;
  if (!mro) stop(StopReason::kUnsupportedAttribute, "super() of a class that is being made");
  Py_ssize_t i = 0, count = PyTuple_GET_SIZE(mro);
  while (i < count && PyTuple_GET_ITEM(mro, i) != reinterpret_cast<PyObject*>(start)) ++i;
  for (++i; i < count; ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    // The first base that has it in its own dictionary; _PyType_Lookup on that base finds the same object.
    Ref own = Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(base), "__dict__"));
    if (!own || PyMapping_HasKey(own.get(), name) != 1) continue;
    PyObject* found = lookup_attribute(base, name);
    if (!Py_TYPE(found)->tp_descr_get) return read_from_class(base, name, found);
    if (on_class && PyFunction_Check(found)) return SymValue::borrow(found);
    if (on_class && Py_TYPE(found) != &PyClassMethod_Type && Py_TYPE(found) != &PyStaticMethod_Type)
      return from_outside(check(Py_TYPE(found)->tp_descr_get(found, nullptr, obj)));
    return bind(found, self);
  }
  PyErr_Format(PyExc_AttributeError, "'super' object has no attribute '%U'", name);
  raise();
}

}  // namespace framejit
