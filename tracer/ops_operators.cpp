// Operators, items, attributes, displays, formatting.
#include "tracer/ops.h"

namespace framejit::ops {

namespace {

std::vector<SymValue> pop_many(SimFrame& frame, size_t count) {
  std::vector<SymValue> values(std::make_move_iterator(frame.stack.end() - count),
                               std::make_move_iterator(frame.stack.end()));
  frame.stack.resize(frame.stack.size() - count);
  return values;
}

Ref make_tuple(Simulator& sim, std::vector<SymValue> values) {
  Ref tuple = sim.check(PyTuple_New(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    sim.hold(values[i]);
    PyTuple_SET_ITEM(tuple.get(), i, values[i].obj.release());
  }
  return tuple;
}

Ref make_list(Simulator& sim, std::vector<SymValue> values) {
  Ref list = sim.check(PyList_New(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    sim.hold(values[i]);
    PyList_SET_ITEM(list.get(), i, values[i].obj.release());
  }
  return list;
}

// Keys are hashed by C code: only such as need no Python code.
PyObject* hashable(Simulator& sim, SymValue& key) {
  PyObject* obj = sim.realise(key);
  sim.require_plain_key(obj);
  return obj;
}

void require_new_keyword(Simulator& sim, PyObject* keywords, PyObject* key) {
  if (PyDict_Contains(keywords, key) == 1)  // an error that names the function, in the words of the version
    sim.stop(StopReason::kUnsupportedValue, "a keyword argument that is given twice");
}

// Who is no dictionary is asked for keys() and items.
void update_from_mapping(Simulator& sim, PyObject* dict, SymValue mapping, bool merge) {
  auto method = sim.find_attr(mapping, interned("keys"));
  if (!method)
    sim.stop(StopReason::kUnsupportedValue, fmt::format("two stars before a '{}'", Py_TYPE(mapping.get())->tp_name));
  SymValue keys = sim.call(*method, CallArgs{});
  for (SymValue& key : sim.collect(sim.get_iter(keys))) {
    if (merge) require_new_keyword(sim, dict, hashable(sim, key));
    SymValue value = sim.get_item(mapping, key);
    sim.check_status(PyDict_SetItem(dict, hashable(sim, key), sim.hold(value)));
  }
}

void update_dict(Simulator& sim, PyObject* dict, SymValue mapping, bool merge) {
  if (!PyDict_Check(mapping.get()))
    return with_mapping_errors(sim, [&] { update_from_mapping(sim, dict, std::move(mapping), merge); });
  sim.rely_on_keys(mapping.get());
  if (sim.world().find(mapping.get()) && !PyDict_CheckExact(mapping.get()))
    sim.stop(StopReason::kUnsupportedValue, "a dict subclass of the program is copied as a whole");
  if (merge) {
    PyObject *key, *value;
    for (Py_ssize_t pos = 0; PyDict_Next(mapping.get(), &pos, &key, &value);) require_new_keyword(sim, dict, key);
  }
  sim.check_status(PyDict_Update(dict, mapping.get()));
}

SymValue convert(Simulator& sim, SymValue value, int conversion) {
  if (conversion == 0) return value;
  const char* builtin = conversion == 1 ? "str" : conversion == 2 ? "repr" : "ascii";
  Ref function = Ref::borrow(PyDict_GetItemString(PyEval_GetBuiltins(), builtin));
  return sim.call(SymValue(function), {std::move(value)});
}

Ref format(Simulator& sim, SymValue value, SymValue spec) {
  if (!spec.null()) sim.realise(spec);
  Ref function = Ref::borrow(PyDict_GetItemString(PyEval_GetBuiltins(), "format"));
  if (PyUnicode_CheckExact(value.get()) && spec.null()) return Ref::borrow(sim.realise(value));
  if (spec.null()) return sim.call(SymValue(function), {std::move(value)}).obj;
  return sim.call(SymValue(function), {std::move(value), std::move(spec)}).obj;
}

}  // namespace

void handle_LoadAttr(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue owner = frame.pop();
  frame.push(sim.load_attr(owner, frame.code->name_at(instr.arg)));
}

void handle_LoadMethod(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue owner = frame.pop();
  SymValue method = sim.load_attr(owner, frame.code->name_at(instr.arg));
  // Twins lower method loads to "NULL and bound method"; so does the simulation.
  if (instr.layout() == bytecode::CallLayout::kNullAbove) {
    frame.push(std::move(method));
    frame.push({});
  } else {
    frame.push({});
    frame.push(std::move(method));
  }
}

void handle_StoreAttr(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue owner = frame.pop();
  SymValue value = frame.pop();
  sim.store_attr(owner, frame.code->name_at(instr.arg), std::move(value));
}

void handle_DeleteAttr(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  sim.delete_attr(frame.pop(), frame.code->name_at(instr.arg));
}

void handle_LoadSuperAttr(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue self = frame.pop();
  SymValue cls = frame.pop();
  SymValue super = frame.pop();
  if (sim.realise(super) != reinterpret_cast<PyObject*>(&PySuper_Type) || !PyType_Check(sim.realise(cls)))
    sim.stop(StopReason::kUnsupportedInstruction, "super is not the builtin");
  sim.realise(self);
  SymValue found =
      sim.load_super_attr(reinterpret_cast<PyTypeObject*>(cls.get()), self, frame.code->name_at(instr.arg));
  bool method = instr.aux & bytecode::kSuperMethod;
  auto layout = static_cast<bytecode::CallLayout>(instr.extra);
  if (method && layout == bytecode::CallLayout::kNullBelow) frame.push({});
  frame.push(std::move(found));
  if (method && layout == bytecode::CallLayout::kNullAbove) frame.push({});
}

void handle_BinarySubscr(Simulator& sim, SimFrame& frame, const Instruction&) {
  SymValue key = frame.pop();
  SymValue container = frame.pop();
  frame.push(sim.get_item(std::move(container), std::move(key)));
}

void handle_StoreSubscr(Simulator& sim, SimFrame& frame, const Instruction&) {
  SymValue key = frame.pop();
  SymValue container = frame.pop();
  SymValue value = frame.pop();
  sim.set_item(std::move(container), std::move(key), std::move(value));
}

void handle_DeleteSubscr(Simulator& sim, SimFrame& frame, const Instruction&) {
  SymValue key = frame.pop();
  SymValue container = frame.pop();
  sim.delete_item(std::move(container), std::move(key));
}

static SymValue make_slice(Simulator& sim, SymValue start, SymValue stop, SymValue step) {
  PyObject* last = step.null() ? nullptr : sim.realise(step);
  return SymValue(sim.check(PySlice_New(sim.realise(start), sim.realise(stop), last)));
}

void handle_BuildSlice(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue step = instr.arg == 3 ? frame.pop() : SymValue();
  SymValue stop = frame.pop();
  SymValue start = frame.pop();
  frame.push(make_slice(sim, std::move(start), std::move(stop), std::move(step)));
}

void handle_BinarySlice(Simulator& sim, SimFrame& frame, const Instruction&) {
  SymValue stop = frame.pop();
  SymValue start = frame.pop();
  SymValue container = frame.pop();
  frame.push(sim.get_item(std::move(container), make_slice(sim, std::move(start), std::move(stop), {})));
}

void handle_StoreSlice(Simulator& sim, SimFrame& frame, const Instruction&) {
  SymValue stop = frame.pop();
  SymValue start = frame.pop();
  SymValue container = frame.pop();
  SymValue value = frame.pop();
  sim.set_item(std::move(container), make_slice(sim, std::move(start), std::move(stop), {}), std::move(value));
}

void handle_UnaryOp(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  frame.push(sim.unary(static_cast<bytecode::UnaryKind>(instr.arg), frame.pop()));
}

void handle_ToBool(Simulator& sim, SimFrame& frame, const Instruction&) {
  SymValue value = frame.pop();
  frame.push(SymValue::of_bool(sim.truth(value)));
}

void handle_BinaryOp(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue right = frame.pop();
  SymValue left = frame.pop();
  frame.push(
      sim.binary(static_cast<bytecode::BinaryKind>(instr.arg), instr.aux & 1, std::move(left), std::move(right)));
}

void handle_CompareOp(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue right = frame.pop();
  SymValue left = frame.pop();
  SymValue result = sim.compare(static_cast<bytecode::CompareKind>(instr.arg), std::move(left), std::move(right));
  if (instr.aux & 1) result = SymValue::of_bool(sim.truth(result));
  frame.push(std::move(result));
}

void handle_IsOp(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue right = frame.pop();
  SymValue left = frame.pop();
  bool same = sim.is_identical(std::move(left), std::move(right));
  frame.push(SymValue::of_bool(same != (instr.arg == 1)));
}

void handle_ContainsOp(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue container = frame.pop();
  SymValue item = frame.pop();
  bool found = sim.contains(std::move(container), std::move(item));
  frame.push(SymValue::of_bool(found != (instr.arg == 1)));
}

void handle_BuildTuple(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  frame.push(SymValue(make_tuple(sim, pop_many(frame, instr.arg))));
}

void handle_BuildList(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  frame.push(SymValue(make_list(sim, pop_many(frame, instr.arg))));
}

void handle_BuildSet(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  Ref set = sim.check(PySet_New(nullptr));
  for (SymValue& item : pop_many(frame, instr.arg)) sim.check_status(PySet_Add(set.get(), hashable(sim, item)));
  frame.push(SymValue(std::move(set)));
}

void handle_BuildMap(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  Ref dict = sim.check(PyDict_New());
  std::vector<SymValue> items = pop_many(frame, 2 * instr.arg);
  for (size_t i = 0; i < items.size(); i += 2)
    sim.check_status(PyDict_SetItem(dict.get(), hashable(sim, items[i]), sim.hold(items[i + 1])));
  frame.push(SymValue(std::move(dict)));
}

void handle_BuildConstKeyMap(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue keys = frame.pop();
  Ref dict = sim.check(PyDict_New());
  std::vector<SymValue> values = pop_many(frame, instr.arg);
  for (size_t i = 0; i < values.size(); ++i)
    sim.check_status(PyDict_SetItem(dict.get(), PyTuple_GET_ITEM(keys.get(), i), sim.hold(values[i])));
  frame.push(SymValue(std::move(dict)));
}

void handle_BuildString(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  Ref parts = make_list(sim, pop_many(frame, instr.arg));
  static PyObject* empty = interned("");
  frame.push(SymValue(sim.check(PyUnicode_Join(empty, parts.get()))));
}

// What the compiler knows the type of, so that nobody asks: it may have been set aside where the segment began.
static PyObject* container_at(Simulator& sim, SimFrame& frame, int32_t depth) {
  PyObject* container = frame.peek(depth).get();
  sim.world().require_followed(container);
  return container;
}

void handle_ListAppend(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue item = frame.pop();
  sim.check_status(PyList_Append(container_at(sim, frame, instr.arg), sim.hold(item)));
}

void handle_SetAdd(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue item = frame.pop();
  sim.check_status(PySet_Add(container_at(sim, frame, instr.arg), hashable(sim, item)));
}

void handle_MapAdd(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue value = frame.pop();
  SymValue key = frame.pop();
  sim.check_status(PyDict_SetItem(container_at(sim, frame, instr.arg), hashable(sim, key), sim.hold(value)));
}

static void extend_list(Simulator& sim, PyObject* list, SymValue iterable) {
  for (SymValue& item : sim.collect_starred(std::move(iterable))) sim.check_status(PyList_Append(list, sim.hold(item)));
}

void handle_ListExtend(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue iterable = frame.pop();
  extend_list(sim, container_at(sim, frame, instr.arg), std::move(iterable));
}

static void update_set(Simulator& sim, PyObject* set, SymValue iterable) {
  SymValue iterator = sim.get_iter(std::move(iterable));
  while (auto item = sim.next(iterator)) sim.check_status(PySet_Add(set, hashable(sim, *item)));
}

void handle_SetUpdate(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue iterable = frame.pop();
  update_set(sim, container_at(sim, frame, instr.arg), std::move(iterable));
}

void handle_DictUpdate(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue mapping = frame.pop();
  update_dict(sim, container_at(sim, frame, instr.arg), std::move(mapping), false);
}

void handle_DictMerge(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue mapping = frame.pop();
  update_dict(sim, container_at(sim, frame, instr.arg), std::move(mapping), true);
}

void handle_ListToTuple(Simulator& sim, SimFrame& frame, const Instruction&) {
  SymValue list = frame.pop();
  frame.push(SymValue(sim.check(PyList_AsTuple(sim.realise(list)))));
}

static Ref concatenate(Simulator& sim, SimFrame& frame, int32_t count) {
  Ref list = sim.check(PyList_New(0));
  for (SymValue& iterable : pop_many(frame, count)) extend_list(sim, list.get(), std::move(iterable));
  return list;
}

void handle_BuildListUnpack(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  frame.push(SymValue(concatenate(sim, frame, instr.arg)));
}
void handle_BuildTupleUnpack(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  frame.push(SymValue(sim.check(PyList_AsTuple(concatenate(sim, frame, instr.arg).get()))));
}
void handle_BuildTupleUnpackWithCall(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  handle_BuildTupleUnpack(sim, frame, instr);
}
void handle_BuildSetUnpack(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  Ref set = sim.check(PySet_New(nullptr));
  for (SymValue& iterable : pop_many(frame, instr.arg)) update_set(sim, set.get(), std::move(iterable));
  frame.push(SymValue(std::move(set)));
}

static void build_map_unpack(Simulator& sim, SimFrame& frame, const Instruction& instr, bool merge) {
  Ref dict = sim.check(PyDict_New());
  for (SymValue& mapping : pop_many(frame, instr.arg)) update_dict(sim, dict.get(), std::move(mapping), merge);
  frame.push(SymValue(std::move(dict)));
}
void handle_BuildMapUnpack(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  build_map_unpack(sim, frame, instr, false);
}
void handle_BuildMapUnpackWithCall(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  build_map_unpack(sim, frame, instr, true);
}

void handle_FormatValue(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue spec = instr.aux & 1 ? frame.pop() : SymValue();
  SymValue value = convert(sim, frame.pop(), instr.arg);
  frame.push(SymValue(format(sim, std::move(value), std::move(spec))));
}
void handle_ConvertValue(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  frame.push(convert(sim, frame.pop(), instr.arg));
}
void handle_FormatSimple(Simulator& sim, SimFrame& frame, const Instruction&) {
  frame.push(SymValue(format(sim, frame.pop(), {})));
}
void handle_FormatWithSpec(Simulator& sim, SimFrame& frame, const Instruction&) {
  SymValue spec = frame.pop();
  frame.push(SymValue(format(sim, frame.pop(), std::move(spec))));
}

// Takes so many items of an iterator. Source: unpack_iterable in CPython's evaluation loop.
static std::vector<SymValue> take_items(Simulator& sim, SymValue& iterator, size_t count, const char* expected) {
  std::vector<SymValue> items;
  while (items.size() < count) {
    auto item = sim.next(iterator);
    if (!item)
      sim.raise(PyExc_ValueError,
                fmt::format("not enough values to unpack (expected {}, got {})", expected, items.size()));
    items.push_back(std::move(*item));
  }
  return items;
}

static SymValue iterator_to_unpack(Simulator& sim, SymValue iterable) {
  PyObject* obj = sim.realise(iterable);
  if (!Py_TYPE(obj)->tp_iter && !PySequence_Check(obj))
    sim.raise(PyExc_TypeError, fmt::format("cannot unpack non-iterable {} object", Py_TYPE(obj)->tp_name));
  return sim.get_iter(std::move(iterable));
}

void handle_UnpackSequence(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue iterator = iterator_to_unpack(sim, frame.pop());
  const size_t count = instr.arg;
  std::vector<SymValue> items = take_items(sim, iterator, count, fmt::format("{}", count).c_str());
  if (sim.next(iterator)) sim.raise(PyExc_ValueError, fmt::format("too many values to unpack (expected {})", count));
  for (size_t i = count; i-- > 0;) frame.push(std::move(items[i]));
}

void handle_UnpackEx(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue iterator = iterator_to_unpack(sim, frame.pop());
  const size_t before = instr.arg, after = instr.extra;
  const std::string expected = fmt::format("at least {}", before + after);
  std::vector<SymValue> first = take_items(sim, iterator, before, expected.c_str());
  std::vector<SymValue> rest = sim.collect(std::move(iterator));
  if (rest.size() < after)
    sim.raise(PyExc_ValueError,
              fmt::format("not enough values to unpack (expected {}, got {})", expected, before + rest.size()));
  for (size_t i = 0; i < after; ++i) frame.push(rest[rest.size() - 1 - i]);
  frame.push(SymValue(make_list(sim, {rest.begin(), rest.end() - after})));
  for (size_t i = before; i-- > 0;) frame.push(first[i]);
}

}  // namespace framejit::ops
