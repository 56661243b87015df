#include "tracer/world.h"

#include <algorithm>

#include "base/check.h"
#include "tracer/callables.h"
#include "tracer/library.h"
#include "tracer/library_code.h"
#include "tracer/set_table.h"
#include "tracer/signals.h"
#include "tracer/type_slots.h"

namespace framejit {

using graph::GuardKind;
using graph::SourceId;
using graph::SourceKind;

namespace {

constexpr Py_ssize_t kMaxGuardedItems = 4096;

[[noreturn]] void stop(StopReason reason, std::string detail) {
  throw StopTrace{TraceStop{reason, std::move(detail), {}}, {}};
}

TraceStop changing_number(PyObject* obj) {
  return {StopReason::kChangingNumber, fmt::format("a '{}'", Py_TYPE(obj)->tp_name), {}};
}

constexpr int kDeepestRead = 500;

void check_size(Py_ssize_t size) {
  if (size > kMaxGuardedItems) stop(StopReason::kContainerTooLarge, fmt::format("{} items", size));
}

}  // namespace

void World::rely_on_typing_object(PyObject* obj) {
  if (const Outside* outside = find(obj)) guard(GuardKind::kIdIs, outside->source, obj);
}

void World::guard(GuardKind kind, SourceId source, PyObject* object, uint64_t number) {
  graph::Guard row{kind, source, {}, {}, number};
  if (object) row.object = pool_.add(object);
  capture_.guards.add(row);
}

void World::guard_items(GuardKind kind, SourceId source, PyObject* items, uint64_t number) {
  guard(kind, source, items, number);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items); ++i)
    if (has_equals(PyTuple_GET_ITEM(items, i))) without_place_.insert(PyTuple_GET_ITEM(items, i));
}

void World::rely_on_type_attr(PyTypeObject* type, PyObject* name, PyObject* found) {
  PyObject* holder = reinterpret_cast<PyObject*>(type);
  if (!relied_on_.insert(holder, name)) return;
  SourceId source = sources().constant(pool_.add(holder));
  if (found)
    guard(GuardKind::kTypeAttrIs, sources().keyed(SourceKind::kTypeAttr, source, pool_.add(name)), found);
  else
    guard(GuardKind::kTypeAttrAbsent, source, name);
}

void World::rely_on_type_attr_read(PyTypeObject* type, PyObject* name, PyObject* found) {
  if (!found || !(PyLong_CheckExact(found) || PyFloat_CheckExact(found))) return rely_on_type_attr(type, name, found);
  PyObject* holder = reinterpret_cast<PyObject*>(type);
  if (!read_numbers_.insert(holder, name)) return;
  SourceId source = sources().constant(pool_.add(holder));
  guard(GuardKind::kTypeIs, sources().keyed(SourceKind::kTypeAttr, source, pool_.add(name)),
        reinterpret_cast<PyObject*>(Py_TYPE(found)));
}

void World::rely_on_item(PyObject* dict, PyObject* name, PyObject* value) {
  if (!relied_on_.insert(dict, name)) return;
  SourceId source = sources().constant(pool_.add(dict));
  if (value)
    guard(GuardKind::kIdIs, sources().keyed(SourceKind::kDictItem, source, pool_.add(name)), value);
  else
    guard(GuardKind::kHasNoKey, source, name);
}

void World::rely_on_table_type(PyObject* table, SourceId source) {
  if (typed_tables_.size() <= source.index()) typed_tables_.resize(2 * source.index() + 1);
  if (typed_tables_[source.index()]) return;
  typed_tables_[source.index()] = true;
  guard(GuardKind::kTypeIs, source, reinterpret_cast<PyObject*>(Py_TYPE(table)));
}

void World::rely_on_answer(PyObject* question, PyObject* answer) {
  if (relied_on_.insert(question, question))
    guard(GuardKind::kAnswers, sources().constant(pool_.add(question)), answer);
}

bool World::rely_on_code(PyObject* function) {
  if (!relied_on_.insert(function, nullptr)) return false;
  guard(GuardKind::kIdIs, sources().read(SourceKind::kFunctionCode, source_of(function)),
        PyFunction_GET_CODE(function));
  return true;
}

// The guard has the addresses of the classes: the tuple itself would keep them alive.
void World::rely_on_mro(PyTypeObject* type) {
  PyObject* holder = reinterpret_cast<PyObject*>(type);
  if (!type->tp_mro) stop(StopReason::kUnsupportedAttribute, "the bases of a class that its metaclass is just making");
  if (!relied_on_.insert(holder, nullptr)) return;
  std::vector<PyObject*> classes;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    classes.push_back(PyTuple_GET_ITEM(type->tp_mro, i));
    capture_.classes.push_back(pool_.add(classes.back()));  // so that its end is the entry's
  }
  Ref addresses = Ref::steal(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(classes.data()),
                                                       static_cast<Py_ssize_t>(classes.size() * sizeof(PyObject*))));
  FJ_CHECK(static_cast<bool>(addresses), "out of memory");
  guard(GuardKind::kMroIs, sources().constant(pool_.add(holder)), addresses.get());
}

bool World::compares_keys_in_c(PyObject* dict) {
  if (compared_in_c_.count(dict)) return true;
  PyObject *key, *value;
  for (Py_ssize_t position = 0; PyDict_Next(dict, &position, &key, &value);)
    if (!PyUnicode_CheckExact(key) && compares_in_python(Py_TYPE(key))) return false;
  compared_in_c_.insert(dict);
  return true;
}

void World::guard_same(SourceId a, SourceId b, bool same) {
  if (a == b) return;
  if (b < a) std::swap(a, b);
  capture_.guards.add({same ? GuardKind::kSameObject : GuardKind::kNotSameObject, a, {}, b, 0});
}

void World::note_place(PyObject* plain, SourceId source) {
  if (!has_equals(plain)) return;
  auto [it, fresh] = places_.try_emplace(plain, Places{source, {}});
  const SourceId first = it->second.first;
  if (!fresh) {
    std::vector<SourceId>& others = it->second.others;
    if (first == source || std::find(others.begin(), others.end(), source) != others.end()) return;
    others.push_back(source);
  }
  if (!PyTuple_CheckExact(plain)) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(plain); ++i) {
    PyObject* item = PyTuple_GET_ITEM(plain, i);
    if (!has_equals(item)) continue;
    // Its items have one place as long as it is the same tuple there: not each way to a shared part is followed.
    if (!fresh) return guard_same(first, source, true);
    note_place(item, sources().item(SourceKind::kTupleItem, source, static_cast<uint32_t>(i)));
  }
}

void World::rely_on_one_object(PyObject* plain) {
  auto it = places_.find(plain);
  if (it == places_.end()) return;
  for (SourceId other : it->second.others) guard_same(it->second.first, other, true);
}

bool World::is_among(const SourcePaths& paths, SourceId source) const {
  if (paths.empty()) return false;
  return paths.count(path_of(capture_.sources, source, [&](graph::ConstId id) { return pool_.at(id); })) != 0;
}

bool World::has_changing_item(SourceId tuple) const {
  if (changing_.empty() && number_inputs_.empty()) return false;
  const SourcePath path = path_of(capture_.sources, tuple, [&](graph::ConstId id) { return pool_.at(id); });
  auto is_below = [&](const SourcePath& item) {
    return item.size() > path.size() && std::equal(path.begin(), path.end(), item.end() - path.size());
  };
  return std::any_of(changing_.begin(), changing_.end(), is_below) ||
         std::any_of(number_inputs_.begin(), number_inputs_.end(), is_below);
}

PyObject* World::add_number(Ref stand_in, Ref tensor) {
  PyObject* number = stand_in.get();
  numbers_[number].tensor = tensor.get();
  kept_.push_back(std::move(stand_in));
  kept_.push_back(std::move(tensor));
  return number;
}

PyObject* World::add_number_input(PyObject* number, Ref tensor) {
  Number& row = numbers_.at(number);
  row.tensor = tensor.get();
  capture_.number_inputs.push_back(static_cast<uint32_t>(capture_.input_sources.size()));
  capture_.input_sources.push_back(row.source);
  kept_.push_back(std::move(tensor));
  return row.tensor;
}

PyObject* World::number_at(SourceId source, PyObject* value) {
  PyObject*& known = numbers_at_[source.value];
  if (known) return known;
  Ref stand_in = host_.number_object();
  if (!stand_in) throw PythonRaised{};
  guard(GuardKind::kTypeIs, source, reinterpret_cast<PyObject*>(&PyFloat_Type));
  known = stand_in.get();
  numbers_[known] = {nullptr, source, PyFloat_AS_DOUBLE(value)};
  kept_.push_back(std::move(stand_in));
  return known;
}

bool World::is_number(SymValue& value) {
  if (value.lazy.valid() && PyFloat_CheckExact(value.get()) && is_among(number_inputs_, value.lazy))
    value = SymValue::borrow(number_at(value.lazy, value.get()));
  return is_number(value.get());
}

void World::stop_at_number(PyObject* number) const {
  if (number_source(number).valid()) stop(StopReason::kChangingNumber, "a 'float'");
  stop(StopReason::kDataDependentValue, "a number out of a tensor decides what is captured");
}

bool World::holds_number(PyObject* obj, int depth) const {
  if (numbers_.empty() || depth > kDeepestHeld) return false;
  if (is_number(obj)) return true;
  if (PyTuple_CheckExact(obj) || PyList_CheckExact(obj)) {
    PyObject** items = PySequence_Fast_ITEMS(obj);
    return std::any_of(items, items + PySequence_Fast_GET_SIZE(obj),
                       [&](PyObject* item) { return holds_number(item, depth + 1); });
  }
  if (!PyDict_CheckExact(obj)) return false;
  PyObject *key, *value;
  for (Py_ssize_t pos = 0; PyDict_Next(obj, &pos, &key, &value);)
    if (holds_number(value, depth + 1)) return true;
  return false;
}

PyObject* World::hold_number(SymValue& value) { return is_number(value) ? value.get() : realise(value); }

PyObject* World::hold(SymValue& value) { return is_aside(value.get()) ? value.get() : hold_number(value); }

bool World::is_changing_number(PyObject* obj, SourceId source) const {
  return (PyLong_CheckExact(obj) || PyFloat_CheckExact(obj)) && is_among(changing_, source);
}

PyObject* World::realise(SymValue& value) {
  if (is_number(value.get())) stop_at_number(value.get());
  require_followed(value.get());
  if (value.lazy.valid()) {
    SourceId source = std::exchange(value.lazy, SourceId());
    PyObject* obj = value.get();
    bool identity = obj == Py_None || PyBool_Check(obj) || is_identity_constant(obj);
    if (is_changing_number(obj, source)) {
      value.lazy = source;
      throw StopTrace{changing_number(obj), {}};
    }
    guard(identity ? GuardKind::kIdIs : GuardKind::kEquals, source, obj);
    note_place(obj, source);
  }
  if (is_unread(value.get())) read_list(value.get());
  return value.get();
}

SourceId World::source_of(PyObject* representation) {
  if (const Outside* outside = find(representation)) return outside->source;
  if (is_aside(representation)) return aside_.at(representation).source;
  if (is_identity_constant(representation) && !made_constants_.count(representation))
    return sources().constant(pool_.add(representation));
  return {};
}

PyObject* World::add(OutsideKind kind, Ref representation, PyObject* real, SourceId source, Ref original) {
  PyObject* key = representation.get();
  kept_.push_back(std::move(representation));
  outside_[key] = Outside{kind, Ref::borrow(real), source, std::move(original)};
  representations_[real] = key;
  order_.push_back(key);
  return key;
}

// Whether the items of this frozenset are told by a guard on it.
static bool has_known_items(PyObject* frozen) {
  Ref items = Ref::steal(PySequence_Tuple(frozen));
  for (Py_ssize_t i = 0; items && i < PyTuple_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(items.get(), i);
    if (!is_constant_key(item)) return false;
  }
  return static_cast<bool>(items);
}

void World::require_frozen(PyObject* real) const {
  const bool constant = is_plain_data(real) || is_identity_constant(real) || Py_TYPE(real) == &PyCell_Type;
  if (!constant) stop(StopReason::kUnsupportedTensor, fmt::format("a '{}' is read", Py_TYPE(real)->tp_name));
}

SymValue World::wrap(PyObject* real, SourceId source) {
  FJ_CHECK(real, "an unbound value cannot be wrapped");
  if (frozen_) require_frozen(real);
  if (PyObject* known = representation(real)) {
    guard_same(outside_[known].source, source, true);
    return SymValue::borrow(known);
  }
  if (find(real)) return SymValue::borrow(real);
  if (host_.is_tensor(real)) return wrap_tensor(real, source);
  if (PyFunction_Check(real) && may_be_made_anew(real, source)) return wrap_function(real, source);
  if (PyTuple_CheckExact(real) && has_changing_item(source)) return wrap_tuple(real, source);
  if (is_plain_data(real) || is_identity_constant(real)) {
    found_.push_back(source);
    return SymValue(Ref::borrow(real), source);
  }
  PyTypeObject* type = Py_TYPE(real);
  if (type == &PyList_Type) return wrap_list(real, source);
  if (type == &PyTuple_Type) return wrap_tuple(real, source);
  if (type == &PyDict_Type) return wrap_dict(real, source);
  if (type == &PySet_Type) return wrap_set(real, source);
  guard(GuardKind::kTypeIs, source, reinterpret_cast<PyObject*>(type));
  if (type == &PyFrozenSet_Type && has_known_items(real)) {
    Ref items = Ref::steal(PySequence_Tuple(real));
    guard_items(GuardKind::kSetGives, source, items.get(), table_shape(real));
    pool_.add(real);
    note_place(real, source);
    return SymValue::borrow(real);
  }
  return SymValue::borrow(add(OutsideKind::kOpaque, Ref::borrow(real), real, source, {}));
}

SymValue World::wrap_tensor(PyObject* real, SourceId source) {
  if (host_.is_fake(real)) return SymValue::borrow(real);
  if (const char* why = host_.why_not_capturable(real))
    return set_aside(real, source, {StopReason::kUnsupportedTensor, why, {}});
  uint64_t index = capture_.tensor_facts.size();
  capture_.tensor_facts.push_back(host_.facts(real));
  capture_.tensor_facts.back().python_type = pool_.add(reinterpret_cast<PyObject*>(Py_TYPE(real)));
  guard(GuardKind::kTensorMatch, source, nullptr, index);
  Ref fake = host_.make_input(real, source);
  if (!fake) throw PythonRaised{};
  capture_.input_sources.push_back(source);
  return SymValue::borrow(add(OutsideKind::kTensor, std::move(fake), real, source, {}));
}

Ref World::wrap_item(PyObject* real, SourceId source) {
  if (depth_ == kDeepestRead) stop(StopReason::kContainerTooLarge, fmt::format("{} levels deep", kDeepestRead));
  struct Level {
    explicit Level(int& depth) : depth_(depth) { ++depth_; }
    ~Level() { --depth_; }
    int& depth_;
  } level(depth_);
  SymValue value = wrap(real, source);
  if (!is_number(value) && is_changing_number(real, source)) return set_aside(real, source, changing_number(real)).obj;
  hold(value);
  return value.obj;
}

SymValue World::wrap_list(PyObject* real, SourceId source) {
  guard(GuardKind::kTypeIs, source, reinterpret_cast<PyObject*>(&PyList_Type));
  PyObject* list = add(OutsideKind::kList, Ref::steal(PyList_New(0)), real, source, {});
  unread_.insert(list);
  return SymValue::borrow(list);
}

// Of functions that the program may make anew for each call the code is guarded, not the identity.
bool World::may_be_made_anew(PyObject* function, SourceId source) const {
  if (is_library_namespace(PyFunction_GET_GLOBALS(function)) || find_callable(function)) return false;
  return comes_with_the_frame(source);
}

bool World::is_read_in_place(SourceId source) const {
  for (; source.valid(); source = capture_.sources.at(source).base) {
    const SourceKind kind = capture_.sources.at(source).kind;
    if (kind == SourceKind::kAttr || kind == SourceKind::kSequenceItem) return false;
  }
  return true;
}

bool World::comes_with_the_frame(SourceId source) const {
  while (capture_.sources.at(source).base.valid()) source = capture_.sources.at(source).base;
  SourceKind root = capture_.sources.at(source).kind;
  return root == SourceKind::kLocal || root == SourceKind::kStack;
}

SymValue World::wrap_function(PyObject* real, SourceId source) {
  static PyObject* globals_name = interned("__globals__");
  guard(GuardKind::kTypeIs, source, reinterpret_cast<PyObject*>(&PyFunction_Type));
  guard(GuardKind::kIdIs, sources().read(SourceKind::kFunctionCode, source), PyFunction_GET_CODE(real));
  guard(GuardKind::kIdIs, sources().keyed(SourceKind::kAttr, source, pool_.add(globals_name)),
        PyFunction_GET_GLOBALS(real));
  return SymValue::borrow(add(OutsideKind::kOpaque, Ref::borrow(real), real, source, {}));
}

void World::rely_on_identity(PyObject* obj) {
  if (!PyFunction_Check(obj)) return;
  if (const Outside* outside = find(obj)) guard(GuardKind::kIdIs, outside->source, obj);
}

void World::rely_on_hashed_value(PyObject* obj) {
  rely_on_identity(obj);
  const Outside* outside = find(obj);
  if (!outside || outside->kind != OutsideKind::kOpaque) return;
  const hashfunc hash = Py_TYPE(obj)->tp_hash;
  if (hash != PyBaseObject_Type.tp_hash && hash != PyObject_HashNotImplemented)
    guard(GuardKind::kIdIs, outside->source, obj);
}

// Puts the real list's items before those that the trace appended.
void World::read_list(PyObject* shadow) {
  const Ref real = outside_[shadow].real;
  const SourceId source = outside_[shadow].source;
  const Py_ssize_t size = PyList_GET_SIZE(real.get());
  check_size(size);
  unread_.erase(shadow);
  guard(GuardKind::kLength, source, nullptr, size);
  Ref items = Ref::steal(PyList_New(0));
  for (Py_ssize_t i = 0; i < size; ++i) {
    Ref item = wrap_item(PyList_GET_ITEM(real.get(), i), sources().item(SourceKind::kListItem, source, i));
    PyList_Append(items.get(), item.get());
  }
  PyList_SetSlice(shadow, 0, 0, items.get());
  outside_[shadow].original = std::move(items);
}

SymValue World::wrap_tuple(PyObject* real, SourceId source) {
  Py_ssize_t size = PyTuple_GET_SIZE(real);
  check_size(size);
  guard(GuardKind::kTypeIs, source, reinterpret_cast<PyObject*>(&PyTuple_Type));
  guard(GuardKind::kLength, source, nullptr, size);
  Ref copy = Ref::steal(PyTuple_New(size));
  for (Py_ssize_t i = 0; i < size; ++i) {
    SourceId item = sources().item(SourceKind::kTupleItem, source, i);
    PyTuple_SET_ITEM(copy.get(), i, wrap_item(PyTuple_GET_ITEM(real, i), item).release());
  }
  if (PyObject* known = representation(real)) {  // it was met again within itself
    guard_same(outside_[known].source, source, true);
    return SymValue::borrow(known);
  }
  return SymValue::borrow(add(OutsideKind::kTuple, std::move(copy), real, source, {}));
}

SymValue World::wrap_dict(PyObject* real, SourceId source) {
  check_size(PyDict_GET_SIZE(real));
  guard(GuardKind::kTypeIs, source, reinterpret_cast<PyObject*>(&PyDict_Type));
  Ref keys = Ref::steal(PySequence_Tuple(real));
  if (!keys) throw PythonRaised{};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys.get()); ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys.get(), i);
    if (!is_constant_key(key))
      stop(StopReason::kUnsupportedValue, fmt::format("a dict key of type {}", Py_TYPE(key)->tp_name));
  }
  guard_items(GuardKind::kDictKeys, source, keys.get());
  PyObject* dict = add(OutsideKind::kDict, Ref::steal(PyDict_New()), real, source, {});
  changes_library_ = changes_library_ || is_library_namespace(real);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys.get()); ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys.get(), i);
    PyObject* item = PyDict_GetItemWithError(real, key);
    FJ_CHECK(item, "a dict changed while it was read");
    Ref value = wrap_item(item, sources().keyed(SourceKind::kDictItem, source, pool_.add(key)));
    PyDict_SetItem(dict, key, value.get());
  }
  outside_[dict].original = Ref::steal(PyDict_Copy(dict));
  move_writes_to(dict);
  return SymValue::borrow(dict);
}

SymValue World::wrap_set(PyObject* real, SourceId source) {
  check_size(PySet_GET_SIZE(real));
  Ref items = Ref::steal(PySequence_Tuple(real));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(items.get(), i);
    if (!is_constant_key(item))
      stop(StopReason::kUnsupportedValue, fmt::format("a set item of type {}", Py_TYPE(item)->tp_name));
  }
  guard(GuardKind::kTypeIs, source, reinterpret_cast<PyObject*>(&PySet_Type));
  guard_items(GuardKind::kSetGives, source, items.get(), table_shape(real));
  Ref shadow = copy_set(real), original = copy_set(real);
  if (!shadow || !original) throw PythonRaised{};
  return SymValue::borrow(add(OutsideKind::kSet, std::move(shadow), real, source, std::move(original)));
}

void World::guard_existence() {
  std::vector<bool> guarded(capture_.sources.size());
  for (const graph::Guard& row : capture_.guards.rows())
    if (row.source.valid()) guarded[row.source.index()] = true;
  for (SourceId source : found_) {
    if (guarded[source.index()]) continue;
    guarded[source.index()] = true;
    guard(GuardKind::kNotUnbound, source);
  }
}

}  // namespace framejit
