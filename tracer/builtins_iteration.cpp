// Builtins that take items one by one: in the order, and only as many, as C code would take.
#include "tracer/builtins.h"
#include "tracer/proxies.h"

namespace framejit::builtins {

namespace {

bool takes_one(const CallArgs& args) { return args.count() == 1 && !args.has_keywords(); }

SymValue list_of(Simulator& sim, const std::vector<SymValue>& items) {
  Ref list = sim.check(PyList_New(0));
  for (SymValue item : items) sim.check_status(PyList_Append(list.get(), sim.realise(item)));
  return SymValue(std::move(list));
}

// Items that C code looks into: their own special methods would run for real, what they hold would go unguarded.
SymValue plain_items(Simulator& sim, SymValue iterable, PyObject* callable) {
  CallArgs items{sim.collect(std::move(iterable)), {}};
  SymValue list = list_of(sim, items.positional);
  sim.require_plain(items, callable);
  return list;
}

SymValue keyword(const CallArgs& args, const char* wanted) {
  for (const auto& [name, value] : args.keywords)
    if (PyUnicode_CompareWithASCIIString(name.get(), wanted) == 0) return value;
  return {};
}

SymValue* argument(CallArgs& args, size_t position, const char* name) {
  if (position < args.positional.size()) return &args.positional[position];
  for (auto& [given, value] : args.keywords)
    if (PyUnicode_CompareWithASCIIString(given.get(), name) == 0) return &value;
  return nullptr;
}

bool has_key_function(Simulator& sim, const CallArgs& args) {
  SymValue key = keyword(args, "key");
  return !key.null() && sim.realise(key) != Py_None;
}

// A TypeError is taken for "not known".
void ask_length(Simulator& sim, SymValue iterable) {
  PyObject* method = sim.lookup_type(Py_TYPE(sim.realise(iterable)), interned("__len__"));
  if (!method || method == Py_None || is_c_method(method) || sim.is_tensor(iterable.get())) return;
  try {
    sim.length(iterable);
  } catch (const PythonRaised&) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw;
    PyErr_Clear();
  }
}

bool is_iterable(Simulator& sim, SymValue& value) {
  PyObject* obj = sim.realise(value);
  return Py_TYPE(obj)->tp_iter || PySequence_Check(obj);
}

}  // namespace

SymValue call_list(Simulator& sim, PyObject* callable, CallArgs args) {
  if (!takes_one(args)) return sim.call_c(callable, args);
  if (bytecode::traits(sim.frame().code->version).list_asks_length) ask_length(sim, args.positional[0]);
  return list_of(sim, sim.collect(args.positional[0]));
}

SymValue call_tuple(Simulator& sim, PyObject* callable, CallArgs args) {
  if (!takes_one(args)) return sim.call_c(callable, args);
  if (PyTuple_CheckExact(sim.realise(args.positional[0]))) return args.positional[0];
  SymValue list = list_of(sim, sim.collect(args.positional[0]));
  return SymValue(sim.check(PyList_AsTuple(list.get())));
}

// What makes lists or tuples of its arguments before anything else.
SymValue call_filling(Simulator& sim, PyObject* callable, CallArgs args) {
  bool filled = false;
  auto fill = [&](SymValue& value) {
    if (!is_iterable(sim, value) || PyList_CheckExact(value.get()) || PyTuple_CheckExact(value.get())) return;
    value = list_of(sim, sim.collect(std::move(value)));
    filled = true;
  };
  const size_t first = PyType_Check(callable) ? 0 : 1;  // a method has self in front
  for (size_t i = first; i < args.positional.size(); ++i) fill(args.positional[i]);
  for (auto& [name, value] : args.keywords) fill(value);
  return filled ? sim.call_with_stand_ins(callable, args) : sim.call_c(callable, args);
}

SymValue call_accumulate(Simulator& sim, PyObject* callable, CallArgs args) {
  if (SymValue* iterable = argument(args, 0, "iterable")) *iterable = sim.as_c_iterable(std::move(*iterable));
  if (SymValue* function = argument(args, 1, "func")) *function = sim.as_c_callback(std::move(*function));
  return sim.call_with_stand_ins(callable, args);
}

// Iterators of its arguments are asked for one by one, when the one before has ended.
SymValue call_chain(Simulator& sim, PyObject* callable, CallArgs args) {
  auto asks_python = [&](SymValue& value) {
    PyObject* iter = sim.lookup_type(Py_TYPE(sim.realise(value)), interned("__iter__"));
    return iter && PyFunction_Check(iter) && !sim.is_tensor(value.get());
  };
  if (args.has_keywords() || std::none_of(args.positional.begin(), args.positional.end(), asks_python)) {
    for (SymValue& value : args.positional) value = sim.as_c_iterable(std::move(value));
    return sim.call_with_stand_ins(callable, args);
  }
  SymValue iter(make_sim_callable(sim, SymValue::borrow(builtin("iter"))));
  CallArgs asked{{std::move(iter), list_of(sim, args.positional)}, {}};
  CallArgs one{{sim.call_c(reinterpret_cast<PyObject*>(&PyMap_Type), asked)}, {}};
  return sim.call_c(Ref::steal(PyObject_GetAttrString(callable, "from_iterable")).get(), one);
}

SymValue call_list_init(Simulator& sim, PyObject* callable, CallArgs args) {
  if (args.positional.size() == 2 && bytecode::traits(sim.frame().code->version).list_asks_length)
    ask_length(sim, args.positional[1]);
  return call_filling(sim, callable, std::move(args));
}

SymValue call_list_setitem(Simulator& sim, PyObject* callable, CallArgs args) {
  if (args.positional.size() == 3 && PySlice_Check(sim.realise(args.positional[1])))
    args.positional[2] = sim.as_fast_sequence(std::move(args.positional[2]));
  if (args.positional.size() > 1) sim.require_plain(CallArgs{{args.positional[1]}, {}}, callable);
  return sim.call_c(callable, args);
}

SymValue call_sum(Simulator& sim, PyObject* callable, CallArgs args) {
  const bool has_start = args.count() == 1 && args.keywords.size() == 1 &&
                         PyUnicode_CompareWithASCIIString(args.keywords[0].first.get(), "start") == 0;
  if (args.count() == 0 || args.count() > 2 || (args.has_keywords() && !has_start)) return sim.call_c(callable, args);
  SymValue total = args.count() == 2 ? args.positional[1] : SymValue(sim.check(PyLong_FromLong(0)));
  if (has_start) total = args.keywords[0].second;
  SymValue iterator = sim.get_iter(args.positional[0]);
  // Numbers are left to C, which may add floats with a correction, and text, which it refuses.
  auto is_number = [&](SymValue& value) {
    PyObject* obj = sim.hold_number(value);
    return sim.is_number(value) || PyLong_CheckExact(obj) || PyFloat_CheckExact(obj) || PyComplex_CheckExact(obj) ||
           PyBool_Check(obj);
  };
  if (PyObject* start = sim.realise(total);
      PyUnicode_Check(start) || PyBytes_Check(start) || PyByteArray_Check(start)) {
    CallArgs refused{{list_of(sim, {}), total}, {}};
    return sim.call_c(callable, refused);
  }
  std::optional<SymValue> item = sim.next(iterator);
  if (is_number(total)) {
    Ref numbers = sim.check(PyList_New(0));
    for (; item && is_number(*item); item = sim.next(iterator))
      sim.check_status(PyList_Append(numbers.get(), item->get()));
    CallArgs summed{{SymValue(numbers), total}, {}};
    total = sim.world().holds_number(numbers.get()) ? sim.sum_of_numbers(total.get(), numbers.get())
                                                    : sim.call_c(callable, summed);
  }
  for (; item; item = sim.next(iterator))
    total = sim.binary(bytecode::BinaryKind::kAdd, false, std::move(total), std::move(*item));
  return total;
}

// With a key function the keys are compared, which it makes.
SymValue call_sorted(Simulator& sim, PyObject* callable, CallArgs args) {
  if (args.count() != 1) return sim.call_c(callable, args);
  const bool by_key = has_key_function(sim, args);
  for (auto& [name, value] : args.keywords) value = sim.as_c_callback(std::move(value));
  SymValue& items = args.positional[0];
  items = by_key ? list_of(sim, sim.collect(std::move(items))) : plain_items(sim, std::move(items), callable);
  return sim.call_c(callable, args);
}

static SymValue find_extreme(Simulator& sim, PyObject* callable, CallArgs args, bytecode::CompareKind wanted) {
  const bool of_one = args.positional.size() == 1;
  const SymValue fallback = keyword(args, "default"), key = keyword(args, "key");
  const size_t known = (fallback.null() ? 0 : 1) + (key.null() ? 0 : 1);
  const bool valid = !args.positional.empty() && args.keywords.size() == known && (of_one || fallback.null());
  if (!valid) return sim.call_c(callable, args);  // which says so
  SymValue iterator = sim.get_iter(of_one ? args.positional[0] : list_of(sim, args.positional));
  const bool by_key = has_key_function(sim, args);
  std::optional<SymValue> best, best_key;
  while (auto item = sim.next(iterator)) {
    SymValue item_key = by_key ? sim.call(key, {*item}) : *item;
    if (best) {
      SymValue better = sim.compare(wanted, item_key, *best_key);
      if (!sim.truth(better)) continue;
    }
    best = std::move(*item);
    best_key = std::move(item_key);
  }
  if (best) return *best;
  args.positional[0] = list_of(sim, {});
  return sim.call_c(callable, args);  // the default, or the error
}

SymValue call_min(Simulator& sim, PyObject* callable, CallArgs args) {
  return find_extreme(sim, callable, std::move(args), bytecode::CompareKind::kLess);
}
SymValue call_max(Simulator& sim, PyObject* callable, CallArgs args) {
  return find_extreme(sim, callable, std::move(args), bytecode::CompareKind::kGreater);
}

SymValue call_list_sort(Simulator& sim, PyObject* callable, CallArgs args) {
  if (!has_key_function(sim, args)) {
    PyObject* list = sim.realise(args.positional.at(0));
    Ref items = sim.check(PyList_Check(list) ? PyList_GetSlice(list, 0, PyList_GET_SIZE(list)) : PySequence_List(list));
    plain_items(sim, SymValue(std::move(items)), callable);
  }
  for (auto& [name, value] : args.keywords) value = sim.as_c_callback(std::move(value));
  return sim.call_c(callable, args);
}

SymValue call_join(Simulator& sim, PyObject* callable, CallArgs args) {
  if (args.positional.size() == 2 && is_iterable(sim, args.positional[1]))
    args.positional[1] = plain_items(sim, sim.as_fast_sequence(std::move(args.positional[1])), callable);
  return sim.call_with_stand_ins(callable, args);
}

static SymValue select_items(Simulator& sim, PyObject* callable, CallArgs args, bool none_is_truth) {
  if (args.count() != 2 || args.has_keywords()) return sim.call_c(callable, args);
  // Without a function the items' truth decides, which may be Python code.
  if (none_is_truth && sim.realise(args.positional[0]) == Py_None)
    args.positional[0] = SymValue(make_sim_callable(sim, SymValue::borrow(reinterpret_cast<PyObject*>(&PyBool_Type))));
  else
    args.positional[0] = sim.as_c_callback(std::move(args.positional[0]), /*gives_truth=*/true);
  args.positional[1] = sim.as_c_iterable(std::move(args.positional[1]));
  return sim.call_with_stand_ins(callable, args);
}

SymValue call_filter(Simulator& sim, PyObject* callable, CallArgs args) {
  return select_items(sim, callable, std::move(args), true);
}
SymValue call_takewhile(Simulator& sim, PyObject* callable, CallArgs args) {
  return select_items(sim, callable, std::move(args), false);
}

SymValue call_reduce(Simulator& sim, PyObject* callable, CallArgs args) {
  if (args.positional.size() < 2 || args.has_keywords()) return sim.call_c(callable, args);
  args.positional[0] = sim.as_c_callback(std::move(args.positional[0]));
  args.positional[1] = sim.as_c_iterable(std::move(args.positional[1]));
  return sim.call_with_stand_ins(callable, args);
}

static SymValue find_truth(Simulator& sim, PyObject* callable, CallArgs args, bool wanted) {
  if (!takes_one(args)) return sim.call_c(callable, args);
  SymValue iterator = sim.get_iter(args.positional[0]);
  while (auto item = sim.next(iterator))
    if (sim.truth(*item) == wanted) return SymValue::of_bool(wanted);
  return SymValue::borrow(wanted ? Py_False : Py_True);
}

SymValue call_any(Simulator& sim, PyObject* callable, CallArgs args) {
  return find_truth(sim, callable, std::move(args), true);
}
SymValue call_all(Simulator& sim, PyObject* callable, CallArgs args) {
  return find_truth(sim, callable, std::move(args), false);
}

SymValue call_count_elements(Simulator& sim, PyObject* callable, CallArgs args) {
  if (args.count() != 2 || args.has_keywords()) return sim.call_c(callable, args);
  if (sim.is_outside_opaque(sim.realise(args.positional[0])))
    sim.stop(StopReason::kUnsupportedValue, "a mapping of the program counts");
  args.positional[1] = sim.as_c_iterable(args.positional[1]);
  return sim.call_with_stand_ins(callable, args);
}

}  // namespace framejit::builtins
