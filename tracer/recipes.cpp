#include "tracer/recipes.h"

#include "tracer/callables.h"
#include "tracer/introspection.h"
#include "tracer/library.h"
#include "tracer/proxies.h"
#include "tracer/set_table.h"
#include "tracer/type_slots.h"

namespace framejit {

using graph::EffectKind;
using graph::Recipe;
using graph::RecipeId;
using graph::RecipeKind;

namespace {

bool is_struct_sequence(PyTypeObject* type) {
  return PyType_IsSubtype(type, &PyTuple_Type) &&
         PyObject_HasAttrString(reinterpret_cast<PyObject*>(type), "n_sequence_fields");
}

}  // namespace

RecipeBuilder::RecipeBuilder(Simulator& sim) : sim_(sim), world_(sim.world()), capture_(sim.world().capture()) {}

void RecipeBuilder::cannot_rebuild(PyObject* obj) {
  if (is_sim_traceback(obj)) sim_.stop_before_raise(StopReason::kCannotRebuild, sim_traceback_origin(obj));
  BreakPoint origin = is_sim_generator(obj) ? sim_generator_origin(obj) : sim_.native_origin(obj);
  for (size_t i = describing_.size(); i-- > 0 && !origin.valid();) origin = sim_.native_origin(describing_[i]);
  throw StopTrace{
      TraceStop{StopReason::kCannotRebuild, fmt::format("a '{}'", Py_TYPE(obj)->tp_name), sim_.location_text()},
      origin};
}

RecipeId RecipeBuilder::constant(PyObject* obj) {
  Recipe recipe{RecipeKind::kConst};
  recipe.object = world_.pool().add(obj);
  return capture_.recipes.add(recipe);
}

RecipeId RecipeBuilder::source(graph::SourceId id) {
  Recipe recipe{RecipeKind::kSource};
  recipe.source = id;
  return capture_.recipes.add(recipe);
}

RecipeId RecipeBuilder::call(PyObject* callable, const std::vector<RecipeId>& args) {
  std::vector<RecipeId> parts{constant(callable)};
  parts.insert(parts.end(), args.begin(), args.end());
  RecipeId id = capture_.recipes.reserve();
  capture_.recipes.set(id, {RecipeKind::kCall}, parts);
  return id;
}

// Reserves the id first: a container may hold itself.
RecipeId RecipeBuilder::build(PyObject* obj, RecipeKind kind, const std::vector<PyObject*>& parts, PyObject* type,
                              uint32_t index) {
  RecipeId id = capture_.recipes.reserve();
  memo_[obj] = id;
  std::vector<RecipeId> ids;
  ids.reserve(parts.size());
  for (PyObject* part : parts) ids.push_back(part ? describe_object(part) : capture_.recipes.add({}));
  Recipe recipe{kind};
  recipe.index = index;
  if (type) recipe.object = world_.pool().add(type);
  capture_.recipes.set(id, recipe, ids);
  return id;
}

// Recipes are made and followed recursively.
constexpr size_t kDeepestContainer = 500;
constexpr int kDeepestUnread = 4;  // containers in a local that is not read again

RecipeId RecipeBuilder::describe(const SymValue& value) {
  if (value.null()) return capture_.recipes.add({});
  if (value.lazy.valid()) return source(value.lazy);
  return describe_object(value.get());
}

RecipeId RecipeBuilder::describe_object(PyObject* obj) {
  if (auto it = memo_.find(obj); it != memo_.end()) return it->second;
  if (world_.is_number(obj)) return describe_number(obj);
  RecipeId id;
  if (const Outside* outside = world_.find(obj))
    id = source(outside->source);
  else if (world_.is_aside(obj))
    id = source(world_.source_of(obj));
  else if (const graph::SourceId place = world_.place_of(obj); place.valid()) {
    world_.rely_on_one_object(obj);
    id = source(place);
  } else if (sim_.is_tensor(obj))
    return describe_tensor(obj);
  else if (PyFunction_Check(obj) && sim_.made_constants().count(obj))
    return describe_function(obj);
  else if (is_constant(obj))
    id = constant(obj);
  else {
    // What is made by a call of its type needs its parts first, and cannot be one of them.
    if (sim_.is_sealed_context(obj)) cannot_rebuild(obj);
    const bool within_itself = std::find(describing_.begin(), describing_.end(), obj) != describing_.end();
    if (within_itself || describing_.size() >= kDeepestContainer) cannot_rebuild(obj);
    describing_.push_back(obj);
    id = describe_fresh(obj);
    describing_.pop_back();
  }
  memo_[obj] = id;
  return id;
}

RecipeId RecipeBuilder::describe_tensor(PyObject* fake) {
  if (sim_.services().host.is_level_tensor(fake)) {
    const BreakPoint origin = sim_.native_origin(fake);
    throw StopTrace{TraceStop{StopReason::kCannotRebuild, "a tensor of a function transform", sim_.location_text()},
                    origin.valid() ? origin : sim_.transforms().first()};
  }
  if (reinterpret_cast<PyObject*>(Py_TYPE(fake)) != library().tensor_type && library().tensor_type)
    cannot_rebuild(fake);
  Recipe recipe{RecipeKind::kOutput};
  recipe.index = static_cast<uint32_t>(outputs_.size());
  outputs_.push_back(fake);
  RecipeId id = capture_.recipes.add(recipe);
  memo_[fake] = id;
  PyObject** attributes = _PyObject_GetDictPtr(fake);
  if (attributes && *attributes) add_attributes(id, fake, *attributes);
  return id;
}

RecipeId RecipeBuilder::describe_number(PyObject* number) {
  if (const graph::SourceId place = world_.number_source(number); place.valid()) return memo_[number] = source(place);
  Recipe recipe{RecipeKind::kNumber};
  recipe.index = static_cast<uint32_t>(outputs_.size());
  outputs_.push_back(world_.number_tensor(number));
  return memo_[number] = capture_.recipes.add(recipe);
}

RecipeId RecipeBuilder::describe_function(PyObject* function) {
  PyObject* annotations = PyFunction_GetAnnotations(function);  // null: nobody has asked for them
  Ref qualname = Ref::steal(PyObject_GetAttrString(function, "__qualname__"));
  std::vector<PyObject*> parts{PyFunction_GET_CODE(function),
                               PyFunction_GET_GLOBALS(function),
                               qualname.get(),
                               PyFunction_GET_DEFAULTS(function),
                               PyFunction_GET_KW_DEFAULTS(function),
                               PyFunction_GET_CLOSURE(function),
                               annotations};
  // The globals dictionary is named by identity, never rebuilt.
  memo_[parts[1]] = constant(parts[1]);
  sim_.keep(qualname);
  RecipeId id = build(function, RecipeKind::kFunction, parts);
  add_function_attributes(function, id);
  return id;
}

// What the trace set on a function after it was made, as functools.wraps does.
void RecipeBuilder::add_function_attributes(PyObject* function, RecipeId recipe) {
  Ref qualname = Ref::steal(PyObject_GetAttrString(function, "__qualname__"));
  Ref plain = Ref::steal(
      PyFunction_NewWithQualName(PyFunction_GET_CODE(function), PyFunction_GET_GLOBALS(function), qualname.get()));
  for (const char* name : {"__name__", "__doc__", "__module__"}) {
    Ref value = Ref::steal(PyObject_GetAttrString(function, name));
    Ref initial = Ref::steal(PyObject_GetAttrString(plain.get(), name));
    if (value.get() != initial.get()) add_attribute(recipe, interned(name), value.get());
  }
  if (PyObject* dict = reinterpret_cast<PyFunctionObject*>(function)->func_dict) add_attributes(recipe, function, dict);
}

// Attributes are set once the object exists.
void RecipeBuilder::add_attribute(RecipeId recipe, PyObject* name, PyObject* value) {
  RecipeId described = describe_object(sim_.keep(Ref::borrow(value)));
  slot_effects_.push_back({EffectKind::kSetAttr, recipe, constant(name), described, {}});
}

void RecipeBuilder::add_attributes(RecipeId recipe, PyObject* obj, PyObject* dict) {
  PyObject *name, *value;
  for (Py_ssize_t pos = 0; PyDict_Next(dict, &pos, &name, &value);) {
    PyObject* in_type = PyUnicode_Check(name) ? _PyType_Lookup(Py_TYPE(obj), name) : nullptr;
    if (!PyUnicode_Check(name) || (in_type && Py_TYPE(in_type)->tp_descr_set)) cannot_rebuild(obj);
    add_attribute(recipe, name, value);
  }
}

RecipeId RecipeBuilder::describe_fresh(PyObject* obj) {
  PyTypeObject* type = Py_TYPE(obj);
  std::vector<PyObject*> parts;
  if (sim_.made_constants().count(obj) && !is_member_of_enumeration(obj)) return describe_descriptor(obj);
  if (PyTuple_Check(obj) || PyList_Check(obj)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(obj); ++i) parts.push_back(PySequence_Fast_GET_ITEM(obj, i));
    if (type == &PyTuple_Type) return build(obj, RecipeKind::kTuple, parts);
    if (type == &PyList_Type) return build(obj, RecipeKind::kList, parts);
    if (is_struct_sequence(type)) {
      PyObject* items = sim_.keep(Ref::steal(PySequence_List(obj)));
      return call(reinterpret_cast<PyObject*>(type), {describe_object(items)});
    }
    if (PyTuple_Check(obj)) {
      RecipeId id = build(obj, RecipeKind::kTypedTuple, parts, reinterpret_cast<PyObject*>(type));
      PyObject** attributes = _PyObject_GetDictPtr(obj);
      if (attributes && *attributes) add_attributes(id, obj, *attributes);
      return id;
    }
  }
  if (PyObject* owner = sim_.owner_of_dict(obj)) {
    PyObject* read = sim_.keep(
        Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__getattribute__")));
    return call(read, {describe_object(owner), constant(interned("__dict__"))});
  }
  if (PyDict_Check(obj)) {
    PyObject *key, *value;
    for (Py_ssize_t pos = 0; PyDict_Next(obj, &pos, &key, &value);) parts.insert(parts.end(), {key, value});
    if (type == &PyDict_Type) return build(obj, RecipeKind::kDict, parts);
  }
  if (type == &PySet_Type || type == &PyFrozenSet_Type) return describe_set(obj);
  if (is_generic_alias(obj) || is_type_union(obj)) return describe_type_form(obj);
  if (type == &PySlice_Type) {
    auto* slice = reinterpret_cast<PySliceObject*>(obj);
    return build(obj, RecipeKind::kSlice, {slice->start, slice->stop, slice->step});
  }
  if (PyCell_Check(obj)) {
    PyObject* contents = PyCell_GET(obj);
    return build(obj, RecipeKind::kCell, contents ? std::vector<PyObject*>{contents} : parts);
  }
  if (PyMethod_Check(obj))
    return build(obj, RecipeKind::kBoundMethod, {PyMethod_GET_FUNCTION(obj), PyMethod_GET_SELF(obj)});
  if (is_sim_callable(obj)) return describe_object(sim_callable_target(obj));
  if (type == &PySuper_Type) {
    auto [start, self] = sim_.super_parts(obj);
    return call(reinterpret_cast<PyObject*>(&PySuper_Type),
                {constant(reinterpret_cast<PyObject*>(start)), describe_object(self.get())});
  }
  if (PyCFunction_Check(obj) && PyCFunction_GET_SELF(obj)) {
    if (PyObject* descriptor = overridden_method(obj)) {
      PyObject* bind = sim_.keep(Ref::steal(PyObject_GetAttrString(descriptor, "__get__")));
      // Methods that are told their class (PEP 573) crash in __get__ of one argument (Objects/descrobject.c).
      auto* type = reinterpret_cast<PyObject*>(PyDescr_TYPE(descriptor));
      return call(bind, {describe_object(PyCFunction_GET_SELF(obj)), constant(type)});
    }
    PyObject* name = sim_.keep(Ref::steal(PyObject_GetAttrString(obj, "__name__")));
    return call(builtin("getattr"), {describe_object(PyCFunction_GET_SELF(obj)), constant(name)});
  }
  if (!strcmp(type->tp_name, "method-wrapper")) {  // as [].__len__
    PyObject* owner = sim_.keep(Ref::steal(PyObject_GetAttrString(obj, "__objclass__")));
    PyObject* name = sim_.keep(Ref::steal(PyObject_GetAttrString(obj, "__name__")));
    PyObject* self = sim_.keep(Ref::steal(PyObject_GetAttrString(obj, "__self__")));
    PyObject* descriptor = _PyType_Lookup(reinterpret_cast<PyTypeObject*>(owner), name);
    PyObject* bind = sim_.keep(Ref::steal(PyObject_GetAttrString(descriptor, "__get__")));
    return call(bind, {describe_object(self), constant(owner)});
  }
  if (PyExceptionInstance_Check(obj)) return describe_exception(obj);
  if (PyIter_Check(obj) && !(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return describe_iterator(obj);
  return describe_instance(obj);
}

RecipeId RecipeBuilder::describe_instance(PyObject* obj) {
  PyTypeObject* type = Py_TYPE(obj);
  PyTypeObject* base = native_base(type);
  bool plain = base == &PyBaseObject_Type, dict = base == &PyDict_Type || base == &PyODict_Type,
       list = base == &PyList_Type;
  if (!strcmp(type->tp_name, "collections.deque")) {
    PyObject* items = sim_.keep(Ref::steal(PySequence_List(obj)));
    PyObject* length = sim_.keep(Ref::steal(PyObject_GetAttrString(obj, "maxlen")));
    return call(reinterpret_cast<PyObject*>(type), {describe_object(items), constant(length)});
  }
  if (!strcmp(type->tp_name, "collections.defaultdict")) {
    PyObject* items = sim_.keep(Ref::steal(PyDict_Copy(obj)));
    PyObject* factory = sim_.keep(Ref::steal(PyObject_GetAttrString(obj, "default_factory")));
    PyObject* exact = sim_.keep(Ref::steal(PyDict_New()));
    PyDict_Update(exact, items);
    return call(reinterpret_cast<PyObject*>(type), {describe_object(factory), describe_object(exact)});
  }
  if (!plain && !dict && !list) cannot_rebuild(obj);
  std::vector<PyObject*> parts;
  uint32_t items = 0;
  if (dict) {
    Ref items_view = base == &PyDict_Type
                         ? Ref::steal(PyDict_Items(obj))
                         : Ref::steal(PyObject_CallMethod(reinterpret_cast<PyObject*>(base), "items", "O", obj));
    PyObject* pairs = items_view ? sim_.keep(Ref::steal(PySequence_List(items_view.get()))) : nullptr;
    if (!pairs) {  // dict.clear() behind an OrderedDict's back
      PyErr_Clear();
      cannot_rebuild(obj);
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(pairs); ++i) {
      PyObject* pair = PyList_GET_ITEM(pairs, i);
      parts.insert(parts.end(), {PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1)});
      ++items;
    }
  } else if (list) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(obj); ++i, ++items) parts.push_back(PyList_GET_ITEM(obj, i));
  }
  PyObject** slot = _PyObject_GetDictPtr(obj);
  if (slot && *slot) {
    PyObject *key, *value;
    for (Py_ssize_t pos = 0; PyDict_Next(*slot, &pos, &key, &value);) parts.insert(parts.end(), {key, value});
  }
  RecipeKind kind = plain ? RecipeKind::kObject : dict ? RecipeKind::kTypedDict : RecipeKind::kTypedList;
  RecipeId id = build(obj, kind, parts, reinterpret_cast<PyObject*>(type), items);
  add_slot_effects(obj, id);
  return id;
}

void RecipeBuilder::finish_graph() {
  world_.guard_existence();
  sim_.require_unobserved_operators();
  std::string why_not;
  RefusedNode refused;
  if (sim_.services().host.finish(outputs_, &why_not, &refused)) return add_apart_guards();
  if (PyErr_Occurred()) PyErr_Clear();
  throw StopTrace{TraceStop{StopReason::kUnsupportedTensor, why_not, sim_.location_text()}, {}, std::move(refused)};
}

void RecipeBuilder::finish_return(SymValue value, const SimFrame* kept) {
  capture_.returned = describe(value);
  if (kept) describe_kept_locals(*kept);
  add_effects();
  finish_graph();
}

void RecipeBuilder::describe_kept_locals(const SimFrame& frame) {
  for (uint32_t i = 0; i < frame.slots.size(); ++i)
    if (!frame.raw[i] && !is_cell_of_the_real_frame(frame, i))
      capture_.kept_locals.emplace_back(i, describe(frame.slots[i]));
}

bool RecipeBuilder::is_cell_of_the_real_frame(const SimFrame& frame, uint32_t slot) const {
  const auto& described = frame.code->slots[slot];
  const SymValue& value = frame.slots[slot];
  return (described.is_cell || described.is_free) && !value.null() && world_.find(value.get());
}

graph::FrameExit RecipeBuilder::describe_frame(size_t index) {
  SimFrame& frame = *sim_.frames()[index];
  const bytecode::DecodedCode& code = *frame.code;
  graph::FrameExit exit;
  exit.code = world_.pool().add(code.code);
  exit.function = index > 0 ? describe_object(frame.function.get()) : capture_.recipes.add({});
  exit.instruction = frame.pc.value;
  exit.pending = index + 1 < sim_.frames().size();
  bool all = sees_locals(code) || (index == 0 && capture_.of_kept_frame);
  const bytecode::SlotSet& live = code.live_locals(frame.pc);
  for (uint32_t i = 0; i < frame.slots.size(); ++i) {
    if (!frame.raw.empty() && frame.raw[i]) continue;  // untouched: it is still in the real frame
    bool is_cell = code.slots[i].is_cell || code.slots[i].is_free;
    const SymValue& value = frame.slots[i];
    if (!all && !is_cell && !live.contains(i) && !sim_.has_finalizer(value.get())) {
      unread_.push_back({index, i});
      continue;
    }
    if (index == 0 && is_cell_of_the_real_frame(frame, i)) continue;
    exit.locals.emplace_back(i, describe(value));
  }
  for (const SymValue& value : frame.stack) exit.stack.push_back(describe(value));
  return exit;
}

// Whether the rebuilt object holds only what is rebuilt anyway, or is from outside.
bool RecipeBuilder::is_held_anyway(PyObject* obj, int depth) {
  if (memo_.count(obj) || world_.find(obj) || world_.is_aside(obj) || is_plain_data(obj)) return true;
  if (depth == 0) return false;
  auto part_is = [&](PyObject* part) { return is_held_anyway(part, depth - 1); };
  if (PyTuple_CheckExact(obj) || PyList_CheckExact(obj)) {
    PyObject** items = PySequence_Fast_ITEMS(obj);
    return std::all_of(items, items + PySequence_Fast_GET_SIZE(obj), part_is);
  }
  if (!PyDict_CheckExact(obj)) return false;
  PyObject *key, *value;
  for (Py_ssize_t pos = 0; PyDict_Next(obj, &pos, &key, &value);)
    if (!part_is(key) || !part_is(value)) return false;
  return true;
}

// A name that is not read again still holds its object until the frame ends, and shows it to a look at the frame. What
// nothing else leads to, nothing can see end: that goes, with the graph's values that it alone needs.
void RecipeBuilder::add_unread_locals() {
  for (auto [index, slot] : unread_) {
    const SymValue& value = sim_.frames()[index]->slots[slot];
    const bool computed = world_.is_number(value.get()) && !world_.number_source(value.get()).valid();
    const bool held = !value.null() && !computed && (value.lazy.valid() || is_held_anyway(value.get(), kDeepestUnread));
    // The segment's own frame must let go of what the name held before.
    if (held || index == 0)
      capture_.frames[index].locals.emplace_back(slot, held ? describe(value) : capture_.recipes.add({}));
  }
}

void RecipeBuilder::finish_break() {
  for (size_t i = 0; i < sim_.frames().size(); ++i) capture_.frames.push_back(describe_frame(i));
  add_effects();
  add_unread_locals();
  finish_graph();
}

}  // namespace framejit
