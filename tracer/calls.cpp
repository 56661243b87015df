// Calls: which of the ways to treat a callable applies.
#include <algorithm>

#include "base/once.h"
#include "tracer/autocast_regions.h"
#include "tracer/callables.h"
#include "tracer/library.h"
#include "tracer/library_code.h"
#include "tracer/proxies.h"
#include "tracer/simulator.h"
#include "tracer/type_slots.h"

namespace framejit {

using graph::SourceKind;

bool is_descriptor_of_c(PyObject* method) {
  return PyObject_TypeCheck(method, &PyMethodDescr_Type) || Py_TYPE(method) == &PyWrapperDescr_Type;
}

bool is_c_method(PyObject* method) { return is_descriptor_of_c(method) || PyCFunction_Check(method); }

namespace {

bool one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Functions of torch._C that only tell something.
bool is_torch_query(std::string_view name) {
  for (std::string_view prefix : {"_get_", "get_", "_is_", "is_", "_has_", "has_", "_are_", "are_"})
    if (name.substr(0, prefix.size()) == prefix) return true;
  return false;
}

std::string_view method_name(PyObject* c_function) {
  return reinterpret_cast<PyCFunctionObject*>(c_function)->m_ml->ml_name;
}

// A C function or method of torch that computes from its arguments alone: operators, and questions about the state of
// torch. All others (guards, generators, autograd functions) may change something that the trace would not see.
bool is_torch_builtin(PyObject* callable) {
  if (PyObject_TypeCheck(callable, &PyMethodDescr_Type) || Py_TYPE(callable) == &PyWrapperDescr_Type ||
      Py_TYPE(callable) == &PyGetSetDescr_Type || Py_TYPE(callable) == &PyClassMethodDescr_Type)
    return one_of(reinterpret_cast<PyDescrObject*>(callable)->d_type->tp_name,
                  {"torch._C.TensorBase", "torch._C._TensorBase", "TensorBase", "torch.Size", "torch.dtype",
                   "torch.device", "torch.finfo", "torch.iinfo"});
  if (!PyCFunction_Check(callable)) return false;
  auto* function = reinterpret_cast<PyCFunctionObject*>(callable);
  PyObject* self = PyCFunction_GET_SELF(callable);
  if (self && PyType_Check(self))
    return one_of(reinterpret_cast<PyTypeObject*>(self)->tp_name,
                  {"torch._C.TensorBase", "torch._C._TensorBase", "torch.Tensor", "Tensor"});
  PyObject* module = function->m_module;
  std::string_view name;
  if (module && PyUnicode_Check(module)) name = PyUnicode_AsUTF8(module);
  if (name.empty() && self && PyModule_Check(self)) name = PyModule_GetName(self);
  if (!self && name == "torch") return true;  // static methods of torch._C._VariableFunctionsClass
  if (one_of(name, {"torch._C._nn", "torch._C._fft", "torch._C._linalg", "torch._C._special"})) return true;
  return name.substr(0, 5) == "torch" && is_torch_query(method_name(callable));
}

bool is_builtin_exception(PyTypeObject* type) {
  return !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) &&
         PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException));
}

// Types are none: their methods change classes.
bool is_builtin_data_type(PyTypeObject* type) {
  if (type == &PyType_Type) return false;
  static PyTypeObject* const kTypes[] = {
      &PyList_Type,  &PyDict_Type,     &PyTuple_Type,      &PySet_Type,       &PyFrozenSet_Type, &PyUnicode_Type,
      &PyLong_Type,  &PyFloat_Type,    &PyBool_Type,       &PyBytes_Type,     &PyComplex_Type,   &PyRange_Type,
      &PySlice_Type, &PyEnum_Type,     &PyReversed_Type,   &PyZip_Type,       &PyMap_Type,       &PyFilter_Type,
      &PyODict_Type, &PyDictKeys_Type, &PyDictValues_Type, &PyDictItems_Type, &PyBaseObject_Type};
  for (PyTypeObject* each : kTypes)
    if (each == type) return true;
  return is_builtin_exception(type) || find_callable(reinterpret_cast<PyObject*>(type));
}

bool is_list_append(PyObject* descriptor) {
  static PyObject* append = _PyType_Lookup(&PyList_Type, interned("append"));
  return descriptor == append;
}

bool module_is(PyObject* callable, const char* name) {
  Ref module = Ref::steal(PyObject_GetAttrString(callable, "__module__"));
  if (!module) PyErr_Clear();
  return module && PyUnicode_Check(module.get()) && PyUnicode_CompareWithASCIIString(module.get(), name) == 0;
}

// The descriptor or function that stands for a builtin, and the bound self (null if none).
struct Builtin {
  PyObject* key;
  PyObject* self;
  PyObject* listed = key;  // what the table has: of a class method its descriptor, though it is called as it is
};

// The descriptor that a bound builtin method came from: of the type that defines it, which a subclass may override.
PyObject* descriptor_of(PyTypeObject* type, const PyMethodDef* method) {
  if (!type->tp_mro) return nullptr;  // its metaclass is just making that
  PyObject* first = nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    PyObject* found = _PyType_Lookup(base, interned(method->ml_name));
    if (!found) continue;  // a class beside those that have it
    if (!first) first = found;
    const bool of_c = PyObject_TypeCheck(found, &PyMethodDescr_Type) || Py_TYPE(found) == &PyClassMethodDescr_Type;
    if (of_c && reinterpret_cast<PyMethodDescrObject*>(found)->d_method == method) return found;
  }
  return first && PyFunction_Check(first) ? nullptr : first;
}

// 3.13 no longer exports the type itself.
PyTypeObject* method_wrapper_type() {
  return once_under_lock([] { return Py_TYPE(Ref::steal(PyObject_GetAttrString(Py_None, "__str__")).get()); });
}

Builtin identify(PyObject* callable) {
  if (PyCFunction_Check(callable)) {
    PyObject* self = PyCFunction_GET_SELF(callable);
    if (!self || PyModule_Check(self)) return {callable, nullptr};
    PyTypeObject* type = PyType_Check(self) ? reinterpret_cast<PyTypeObject*>(self) : Py_TYPE(self);
    PyObject* descriptor = descriptor_of(type, reinterpret_cast<PyCFunctionObject*>(callable)->m_ml);
    if (!descriptor) return {callable, nullptr};
    if (Py_TYPE(descriptor) == &PyClassMethodDescr_Type) return {callable, nullptr, descriptor};
    if (Py_TYPE(descriptor) == &PyStaticMethod_Type || PyCFunction_Check(descriptor) || PyType_Check(self))
      return {PyCFunction_Check(descriptor) ? descriptor : callable, nullptr};
    return {descriptor, self};
  }
  if (Py_TYPE(callable) == method_wrapper_type()) {
    Ref self = Ref::steal(PyObject_GetAttrString(callable, "__self__"));
    Ref name = Ref::steal(PyObject_GetAttrString(callable, "__name__"));
    Ref owner = Ref::steal(PyObject_GetAttrString(callable, "__objclass__"));
    // They live as long as the wrapper does.
    return {_PyType_Lookup(reinterpret_cast<PyTypeObject*>(owner.get()), name.get()), self.get()};
  }
  return {callable, nullptr};
}

}  // namespace

PyObject* overridden_method(PyObject* bound) {
  PyObject* self = PyCFunction_GET_SELF(bound);
  if (!self || PyModule_Check(self) || PyType_Check(self)) return nullptr;
  PyMethodDef* method = reinterpret_cast<PyCFunctionObject*>(bound)->m_ml;
  PyObject* descriptor = descriptor_of(Py_TYPE(self), method);
  const bool own = descriptor == _PyType_Lookup(Py_TYPE(self), interned(method->ml_name));
  return own || !descriptor || Py_TYPE(descriptor) != &PyMethodDescr_Type ? nullptr : descriptor;
}

void Simulator::stop_at_refused() {
  const std::string refused = services_.gate.take_refused();
  PyErr_Clear();
  stop(StopReason::kUnknownCall, fmt::format("C code calls {}", refused));
}

SymValue Simulator::call_c(PyObject* callable, CallArgs& args) {
  return without_python([&] { return call_real(callable, args); });
}

SymValue Simulator::call_with_stand_ins(PyObject* callable, CallArgs& args) {
  const size_t raised_before = raised_for_c_;
  try {
    return call_c(callable, args);
  } catch (const PythonRaised&) {
    if (raised_for_c_ != raised_before) throw;
    PyErr_Clear();
    stop(StopReason::kUnsupportedValue, fmt::format("arguments that {} refuses", qualified_name(callable)));
  }
}

SymValue Simulator::call_real(PyObject* callable, CallArgs& args) {
  name_default_device(*this, callable, args);
  PyObject* keyed = rely_on_given_keys(callable, args);
  Ref tuple = check(PyTuple_New(args.positional.size()));
  for (size_t i = 0; i < args.positional.size(); ++i) {
    hold_number(args.positional[i]);
    PyTuple_SET_ITEM(tuple.get(), i, Ref(args.positional[i].obj).release());
  }
  Ref keywords;
  if (args.has_keywords()) {
    keywords = check(PyDict_New());
    for (auto& [name, value] : args.keywords) check_status(PyDict_SetItem(keywords.get(), name.get(), realise(value)));
  }
  mark_location();
  SymValue result = Py_TYPE(callable) == &PyMethodDescr_Type || Py_TYPE(callable) == &PyWrapperDescr_Type
                        ? call_container_method(callable, tuple.get(), keywords.get())
                        : from_real(check(PyObject_Call(callable, tuple.get(), keywords.get())));
  // A member of an enumeration that nobody else has is one that was made just now.
  if (is_member_of_enumeration(result.get()) && Py_REFCNT(result.get()) == 1) made_constants().insert(keep(result.obj));
  note_native_origin(result.get());
  if (keyed) rely_on_made_keys(keyed), rely_on_made_keys(result.get());
  if (is_in_backward()) require_frozen_answer(callable, args, result.get());
  return result;
}

// C code and functions of the library are asked about tensors.
void Simulator::require_frozen_answer(PyObject* callable, const CallArgs& args, PyObject* answer) {
  const bool of_tensors = std::any_of(args.positional.begin(), args.positional.end(),
                                      [&](const SymValue& value) { return is_tensor(value.get()); });
  if (!of_tensors && !is_torch_builtin(callable) && !PyFunction_Check(callable)) return;
  const bool descriptor =
      PyObject_TypeCheck(callable, &PyMethodDescr_Type) || Py_TYPE(callable) == &PyWrapperDescr_Type;
  Ref name =
      descriptor ? Ref::borrow(PyDescr_NAME(callable)) : Ref::steal(PyObject_GetAttrString(callable, "__name__"));
  if (!name) PyErr_Clear();
  require_frozen_answer(name ? PyUnicode_AsUTF8(name.get()) : "", answer);
}

void Simulator::note_native_origin(PyObject* made) {
  if (is_plain_data(made) || (is_tensor(made) && !services_.host.is_level_tensor(made)) || is_identity_constant(made) ||
      PyTuple_Check(made) || PyList_Check(made) || PyDict_Check(made))
    return;
  auto [origin, first] = native_origins_.try_emplace(made);
  if (first) origin->second = {Ref::borrow(made), current_break_point()};
}

BreakPoint Simulator::native_origin(PyObject* made) const {
  auto found = native_origins_.find(made);
  return found == native_origins_.end() ? BreakPoint{} : found->second.point;
}

std::optional<SymValue> Simulator::call_special(PyObject* self, const char* name,
                                                std::initializer_list<SymValue> args) {
  if (!(Py_TYPE(self)->tp_flags & Py_TPFLAGS_HEAPTYPE)) return std::nullopt;
  PyObject* method = lookup_type(Py_TYPE(self), interned(name));
  if (method == Py_None)  // so that it is an error, even where a base has one
    stop(StopReason::kUnsupportedValue, fmt::format("{} of '{}' is None", name, Py_TYPE(self)->tp_name));
  if (!method || is_descriptor_of_c(method)) return std::nullopt;
  if (!PyFunction_Check(method)) return call(bind(method, SymValue::borrow(self)), args);
  CallArgs call_args;
  call_args.positional.push_back(SymValue::borrow(self));
  call_args.positional.insert(call_args.positional.end(), args.begin(), args.end());
  return call_function(method, std::move(call_args), false);
}

SymValue Simulator::call(SymValue callable, std::initializer_list<SymValue> args) {
  CallArgs call_args;
  call_args.positional.assign(args.begin(), args.end());
  return call(std::move(callable), std::move(call_args));
}

std::pair<SymValue, SymValue> Simulator::method_parts(PyObject* method) {
  PyObject* function = PyMethod_GET_FUNCTION(method);
  PyObject* self = PyMethod_GET_SELF(method);
  if (const Outside* outside = world_.find(method)) {
    SymValue f = world_.wrap(function, world_.sources().read(SourceKind::kMethodFunction, outside->source));
    return {f, world_.wrap(self, world_.sources().read(SourceKind::kMethodSelf, outside->source))};
  }
  return {SymValue::borrow(function), SymValue::borrow(self)};
}

SymValue Simulator::call(SymValue callable, CallArgs args, bool plain) {
  for (int i = 0; i < 16; ++i) {
    PyObject* f = realise(callable);
    if (PyFunction_Check(f)) return call_function(f, std::move(args), plain);
    if (PyMethod_Check(f)) {
      auto [function, self] = method_parts(f);
      args.positional.insert(args.positional.begin(), self);
      callable = function;
      continue;
    }
    if (PyType_Check(f)) return call_type(reinterpret_cast<PyTypeObject*>(f), std::move(args));
    if (is_module(f)) return call_module(f, std::move(args), plain);
    if (is_sim_callable(f)) {
      callable = SymValue::borrow(sim_callable_target(f));
      continue;
    }
    if (PyWeakref_CheckRefExact(f) && args.count() == 0 && !args.has_keywords() && world_.find(f)) return referent(f);
    if (Py_TYPE(f) == reinterpret_cast<PyTypeObject*>(library().lru_cache_type)) {
      if (is_in_body()) refuse_in_body("functools.lru_cache is filled");
      return call_cache(f, std::move(args));
    }
    PyTypeObject* type = Py_TYPE(f);
    auto* partial = reinterpret_cast<PyTypeObject*>(library().partial_type);
    if (partial && PyType_IsSubtype(type, partial)) {
      PyObject* own = type == partial ? nullptr : lookup_type(type, interned("__call__"));
      if (!own || !PyFunction_Check(own)) {
        callable = unfold_partial(callable, args);
        continue;
      }
    }
    if (PyCFunction_Check(f) || type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type ||
        type == method_wrapper_type() || type == &PyClassMethodDescr_Type)
      return call_builtin(f, std::move(args));
    if (PyObject* hook = lookup_type(type, interned("__call__")); hook && PyFunction_Check(hook)) {
      if (services_.runs_eagerly(f)) stop(StopReason::kNotToStatic, qualified_name(f));
      args.positional.insert(args.positional.begin(), callable);
      return call_function(hook, std::move(args), plain);
    }
    if (services_.captured_function) {
      if (PyObject* inner = services_.captured_function(f)) {
        if (is_in_backward()) refuse_in_body("a captured function is called");
        callable = SymValue::borrow(inner);
        continue;
      }
    }
    if (find_callable(f)) return call_row(*find_callable(f), f, std::move(args));
    if (!type->tp_call) raise(PyExc_TypeError, fmt::format("'{}' object is not callable", type->tp_name));
    if (!world_.find(f) && !strncmp(type->tp_name, "operator.", 9)) return call_getter(f, std::move(args));
    stop(StopReason::kUnknownCall, qualified_name(f));
  }
  stop(StopReason::kUnknownCall, "a callable that wraps others without end");
}

// What it refers to lives on: a graph ends before what a weak reference watches is let go of (finalizers.cpp).
SymValue Simulator::referent(PyObject* reference) {
  if (is_in_backward()) refuse_in_body("a weak reference is asked");
  require_referents_known();
  const Outside* outside = world_.find(reference);
  const Ref target = Ref::borrow(referent_of(outside->real.get()));
  return world_.wrap(target.get(), world_.sources().read(SourceKind::kReferent, outside->source));
}

// operator.itemgetter, attrgetter and methodcaller, made in the trace: they say how they were made.
SymValue Simulator::call_getter(PyObject* getter, CallArgs args) {
  std::string_view type = Py_TYPE(getter)->tp_name;
  Ref reduced = check(PyObject_CallMethod(getter, "__reduce__", nullptr));
  PyObject* parts = PyTuple_GET_ITEM(keep(reduced), 1);
  bool known = PyTuple_GET_ITEM(reduced.get(), 0) == reinterpret_cast<PyObject*>(Py_TYPE(getter));
  if (!known || args.positional.size() != 1 || args.has_keywords())
    stop(StopReason::kUnknownCall, qualified_name(getter));
  const SymValue owner = args.positional[0];
  if (type == "operator.methodcaller") {
    CallArgs rest;
    for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(parts); ++i)
      rest.positional.push_back(SymValue::borrow(PyTuple_GET_ITEM(parts, i)));
    return call(load_attr(owner, PyTuple_GET_ITEM(parts, 0)), std::move(rest));
  }
  auto get = [&](PyObject* part) {
    if (type == "operator.itemgetter") return get_item(owner, SymValue::borrow(part));
    if (type != "operator.attrgetter") stop(StopReason::kUnknownCall, qualified_name(getter));
    Ref names = check(PyObject_CallMethod(part, "split", "s", "."));
    SymValue value = owner;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names.get()); ++i) {
      PyObject* name = Ref(Ref::borrow(PyList_GET_ITEM(names.get(), i))).release();
      PyUnicode_InternInPlace(&name);
      value = load_attr(value, keep(Ref::steal(name)));
    }
    return value;
  };
  if (PyTuple_GET_SIZE(parts) == 1) return get(PyTuple_GET_ITEM(parts, 0));
  Ref results = check(PyTuple_New(PyTuple_GET_SIZE(parts)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts); ++i) {
    SymValue item = get(PyTuple_GET_ITEM(parts, i));
    realise(item);
    PyTuple_SET_ITEM(results.get(), i, item.obj.release());
  }
  return SymValue(std::move(results));
}

SymValue Simulator::unfold_partial(const SymValue& partial, CallArgs& args) {
  SymValue function = load_attr(partial, "func"), bound = load_attr(partial, "args"),
           keywords = load_attr(partial, "keywords");
  std::vector<SymValue> items = collect(bound);
  args.positional.insert(args.positional.begin(), items.begin(), items.end());
  PyObject *key, *value;
  // As dict.update: what is given anew stands where the first value stood.
  std::vector<std::pair<Ref, SymValue>> merged;
  for (Py_ssize_t pos = 0; PyDict_Next(keywords.get(), &pos, &key, &value);) {
    if (!PyUnicode_Check(key)) stop(StopReason::kUnsupportedValue, "a keyword that is no text");
    auto has_name = [&](const auto& each) { return PyUnicode_Compare(each.first.get(), key) == 0; };
    auto given = std::find_if(args.keywords.begin(), args.keywords.end(), has_name);
    const bool anew = given != args.keywords.end();
    merged.emplace_back(Ref::borrow(key), anew ? std::move(given->second) : SymValue::borrow(value));
    if (anew) args.keywords.erase(given);
  }
  std::move(args.keywords.begin(), args.keywords.end(), std::back_inserter(merged));
  args.keywords = std::move(merged);
  return function;
}

static bool is_descriptor_type(PyObject* callable) {
  auto* type = reinterpret_cast<PyTypeObject*>(callable);
  return type == &PyProperty_Type || type == &PyStaticMethod_Type || type == &PyClassMethod_Type;
}

// A set takes over what another one has, of a subclass too, and asks no __iter__ of it.
static bool copies_table(Simulator& sim, PyObject* callable, SymValue& value) {
  const bool makes_set = callable == reinterpret_cast<PyObject*>(&PySet_Type) ||
                         callable == reinterpret_cast<PyObject*>(&PyFrozenSet_Type);
  if (!makes_set || !PyAnySet_Check(sim.realise(value))) return false;
  if (sim.is_outside_opaque(value.get()))
    sim.stop(StopReason::kUnsupportedValue, fmt::format("a copy of a '{}'", Py_TYPE(value.get())->tp_name));
  return true;
}

SymValue Simulator::call_row(const CallableRow& row, PyObject* callable, CallArgs args) {
  if (is_in_body()) require_pure(row, args.positional.empty() ? nullptr : realise(args.positional[0]), args);
  switch (row.kind) {
    case CallableKind::kBreak:
      stop(row.reason, row.path);
    case CallableKind::kHandler:
      return made_by(callable, row.handler(*this, callable, std::move(args)));
    case CallableKind::kState: {
      std::vector<PyObject*> values;
      for (SymValue& value : args.positional) values.push_back(realise(value));
      if (args.has_keywords()) stop(StopReason::kGlobalMutation, row.path);
      SymValue result = set_state(*this, callable, args);
      record_state_call(callable, values);
      return result;
    }
    case CallableKind::kConsume:
    case CallableKind::kIterate:
      for (size_t i = 0; i < args.positional.size(); ++i) {
        SymValue& value = args.positional[i];
        if (i == 0 && row.kind == CallableKind::kConsume)
          value = as_c_callback(std::move(value));
        else if (!copies_table(*this, callable, value))
          value = as_c_iterable(std::move(value));
      }
      return made_by(callable, call_with_stand_ins(callable, args));
    case CallableKind::kPure:
    case CallableKind::kRecord:
      for (SymValue& value : args.positional) realise(value);
      require_plain(args, callable);
      break;
    case CallableKind::kKeyed:
      for (size_t i = 1; i < std::min<size_t>(args.positional.size(), 2); ++i)
        require_plain_key(realise(args.positional[i]));
      break;
    case CallableKind::kStore:
      break;
  }
  if (is_descriptor_type(callable)) {
    SymValue made = call_c(callable, args);
    made_constants().insert(keep(made.obj));
    return made_by(callable, std::move(made));
  }
  const bool is_c = !PyFunction_Check(callable) && std::string_view(row.path).substr(0, 6) != "torch.";
  return made_by(callable, is_c ? call_c(callable, args) : call_real(callable, args));
}

// What C code will call back runs in the simulation.
SymValue Simulator::as_c_callback(SymValue value, bool gives_truth) {
  PyObject* obj = realise(value);
  const bool wrap = PyCallable_Check(obj) && !is_tensor(obj) && !is_sim_callable(obj);
  return wrap ? SymValue(make_sim_callable(*this, std::move(value), gives_truth)) : value;
}

// What C code will iterate over must iterate without Python code and be guarded.
SymValue Simulator::as_c_iterable(SymValue value) {
  PyObject* obj = realise(value);
  if (is_tensor(obj) || PyType_Check(obj) || is_sim_callable(obj)) return value;
  PyObject* iter = lookup_type(Py_TYPE(obj), interned("__iter__"));
  if (iter && PyFunction_Check(iter)) {
    SymValue iterator = get_iter(value);
    PyObject* next = lookup_type(Py_TYPE(iterator.get()), interned("__next__"));
    if (next && PyFunction_Check(next))
      stop(StopReason::kUnsupportedValue, "an iterator written in Python is handed to C code");
    return iterator;
  }
  if (!iter && has_python_specials(obj))
    stop(StopReason::kUnsupportedValue, "C code is handed what __getitem__ iterates");
  if (is_outside_opaque(obj) && Py_TYPE(obj)->tp_iter) {
    if (PyIter_Check(obj)) stop(StopReason::kOutsideIterator, Py_TYPE(obj)->tp_name);
    if (PyDict_Check(obj)) {
      Ref copy = snapshot_dict(value);
      note_snapshot(copy.get(), obj, builtin("iter"));
      return SymValue(std::move(copy));
    }
    return get_iter(value);
  }
  return value;
}

// A bound builtin method that the program holds (LOG.append): the same method of what the trace has for its self.
Ref Simulator::rebind_builtin(PyObject* callable) {
  const Outside* outside = world_.find(callable);
  if (!outside) return Ref::borrow(callable);
  const graph::SourceId source = outside->source;
  auto part = [&](const char* name) {
    Ref value = check(PyObject_GetAttrString(callable, name));
    return world_.wrap(value.get(),
                       world_.sources().keyed(SourceKind::kAttr, source, world_.pool().add(interned(name))));
  };
  SymValue name = part("__name__"), self = part("__self__");
  realise(name);
  if (self.lazy.valid()) realise(self);  // a class; a list that is only appended to may have any contents
  return check(PyObject_GetAttr(self.get(), name.get()));
}

SymValue Simulator::call_torch(PyObject* target, PyObject* callable, CallArgs args) {
  for (SymValue& value : args.positional) hold_number(value);
  for (auto& [name, value] : args.keywords) hold_number(value);
  require_plain(args, callable, true);
  give_numbers(target, args);
  return call_real(target, args);
}

// Whether the present error is about the number of arguments or their names, and names the method's type. A bound
// method may name that of its object, or none. C code says so before it does anything.
static bool names_type_of_method(PyObject* bound) {
  PyObject* self = PyCFunction_Check(bound) ? PyCFunction_GET_SELF(bound) : nullptr;
  if (!self || PyType_Check(self) || PyModule_Check(self) || !PyErr_ExceptionMatches(PyExc_TypeError)) return false;
  PyObject *type, *error, *traceback;
  PyErr_Fetch(&type, &error, &traceback);
  bool names_it = false;
  PyObject* descriptor = descriptor_of(Py_TYPE(self), reinterpret_cast<PyCFunctionObject*>(bound)->m_ml);
  if (descriptor) {
    const std::string begin = qualified_name(descriptor) + "() takes ";
    Ref text = error ? Ref::steal(PyObject_Str(error)) : Ref();
    const char* words = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    names_it = words && !strncmp(words, begin.c_str(), begin.size());
  }
  PyErr_Clear();
  PyErr_Restore(type, error, traceback);
  return names_it;
}

SymValue Simulator::call_builtin(PyObject* held, CallArgs args) {
  const Ref bound = rebind_builtin(held);
  try {
    return call_builtin_itself(bound.get(), std::move(args));
  } catch (const PythonRaised&) {
    if (!names_type_of_method(bound.get())) throw;
    PyErr_Clear();
    stop(StopReason::kUnknownCall, qualified_name(bound.get()));
  }
}

SymValue Simulator::call_builtin_itself(PyObject* callable, CallArgs args) {
  auto [key, self, listed] = identify(callable);
  if (!key) stop(StopReason::kUnknownCall, qualified_name(callable));
  if (is_in_body()) require_pure_builtin(listed, self, args);
  if (is_list_append(key) && args.positional.size() == (self ? 1 : 2) && !args.has_keywords())
    if (PyObject* list = self ? self : args.positional[0].get(); world_.is_unread(list)) {
      check_status(PyList_Append(list, hold(args.positional.back())));
      return SymValue::borrow(Py_None);
    }
  const CallableRow* row = find_callable(listed);
  if (self) {
    args.positional.insert(args.positional.begin(), SymValue::borrow(self));
    if (!row && PyFunction_Check(key)) return call_function(key, std::move(args), false);
  }
  PyObject* target = self ? key : callable;
  bool descriptor = PyObject_TypeCheck(key, &PyMethodDescr_Type) || Py_TYPE(key) == &PyWrapperDescr_Type;
  if (descriptor && !args.positional.empty()) {
    // C methods of dict on a dict subclass of the program: its items are read one by one.
    SymValue& first = args.positional[0];
    PyObject* obj = realise(first);
    PyTypeObject* owner = reinterpret_cast<PyDescrObject*>(key)->d_type;
    if (is_outside_opaque(obj) &&
        (PyDict_Check(obj) || PyList_Check(obj) || PyTuple_Check(obj) || PyAnySet_Check(obj)) &&
        (owner == &PyDict_Type || owner == &PyODict_Type))
      return call_outside_dict_method(key, std::move(args));
    if (is_outside_opaque(obj) && is_builtin_data_type(owner) && (owner != &PyBaseObject_Type || !row))
      stop(StopReason::kUnsupportedValue, qualified_name(key));
    if (row) return call_row(*row, target, std::move(args));
    if (is_torch_builtin(key)) return call_torch(target, callable, std::move(args));
    if (is_builtin_data_type(owner) || is_sim_generator(obj)) {
      const bool moves = moves_numbers(obj, key);
      for (size_t i = 1; i < args.positional.size(); ++i)
        moves ? hold_number(args.positional[i]) : realise(args.positional[i]);
      const size_t first_read =
          one_of(PyUnicode_AsUTF8(PyDescr_NAME(key)), {"count", "index", "remove", "__contains__"}) ? 0 : 1;
      if (!is_sim_generator(obj))  // which takes them as the simulation does
        require_plain(CallArgs{{args.positional.begin() + first_read, args.positional.end()}, args.keywords}, callable,
                      moves);
      if (first_read == 0 && args.positional.size() > 1) rely_on_search(obj, args.positional[1].get());
      const bool compares =
          one_of(PyUnicode_AsUTF8(PyDescr_NAME(key)), {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"});
      if (compares && args.positional.size() == 2) rely_on_comparison(obj, args.positional[1].get());
      return call_c(target, args);
    }
    stop(StopReason::kUnknownCall, qualified_name(callable));
  }
  if (row) return call_row(*row, target, std::move(args));
  if (is_torch_builtin(callable)) {
    if (args.count() == 0 && !args.has_keywords() && is_torch_query(method_name(callable)))
      return SymValue(rely_on_answer(callable));
    return call_torch(callable, callable, std::move(args));
  }
  // Class methods of builtin types (dict.fromkeys), and math.
  PyObject* owner = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  bool of_data_type = owner && PyType_Check(owner) && is_builtin_data_type(reinterpret_cast<PyTypeObject*>(owner));
  if (of_data_type || module_is(callable, "math") || module_is(callable, "_operator")) {
    for (SymValue& value : args.positional) realise(value);
    if (of_data_type && !args.positional.empty()) args.positional[0] = as_c_iterable(std::move(args.positional[0]));
    require_plain(args, callable);
    return of_data_type ? call_with_stand_ins(callable, args) : call_c(callable, args);
  }
  stop(StopReason::kUnknownCall, qualified_name(callable));
}

}  // namespace framejit
