// What a segment leaves changed: containers, attributes, global state.
#include <algorithm>

#include "tracer/autocast_regions.h"
#include "tracer/library.h"
#include "tracer/recipes.h"
#include "tracer/set_table.h"

namespace framejit {

using graph::Effect;
using graph::EffectKind;
using graph::RecipeId;

// Key by key: what stays stays in its place, for the iterators that the program has over the dictionary.
void RecipeBuilder::add_dict_effects(PyObject* shadow, const Outside& outside) {
  static PyObject* const popitem = _PyType_Lookup(&PyDict_Type, interned("popitem"));
  PyObject* original = outside.original.get();
  PyObject* now = sim_.keep(Ref::steal(PyDict_Items(shadow)));
  const size_t first_effect = capture_.effects.size();
  auto add = [&](EffectKind kind, PyObject* key, PyObject* value) {
    Effect effect{kind, source(outside.source), key ? describe_object(key) : RecipeId(), {}, {}};
    if (value) effect.value = describe_object(value);
    capture_.effects.push_back(std::move(effect));
  };
  const World::Removals* removals = world_.removals(shadow);
  const bool cleared = removals && removals->cleared;
  if (cleared && PyDict_GET_SIZE(original) > 0) add(EffectKind::kDictReplace, nullptr, nullptr);
  if (removals && !cleared) {
    for (const auto& [how, key] : removals->keys) {
      if (how == World::Removal::kPopped)
        capture_.effects.push_back({EffectKind::kCall, constant(popitem), {}, {}, {source(outside.source)}});
      else
        add(EffectKind::kDictDelete, key.get(), nullptr);
    }
  }
  PyObject *key, *value;
  Py_ssize_t kept = 0;
  for (Py_ssize_t pos = 0; !cleared && PyDict_Next(original, &pos, &key, &value);) {
    if (removals && PySet_Contains(removals->gone.get(), key) == 1) continue;
    const bool is_next = kept < PyList_GET_SIZE(now) && PyTuple_GET_ITEM(PyList_GET_ITEM(now, kept), 0) == key;
    if (!is_next) cannot_rebuild(shadow);
    ++kept;
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(now); ++i) {
    PyObject* pair = PyList_GET_ITEM(now, i);
    if (i >= kept || PyTuple_GET_ITEM(pair, 1) != PyDict_GetItem(original, PyTuple_GET_ITEM(pair, 0)))
      add(EffectKind::kDictSet, PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
  }
  if (capture_.effects.size() > first_effect) guard_apart(shadow);
}

void RecipeBuilder::add_container_effects() {
  for (size_t at = 0; at < world_.outside_in_order().size(); ++at) {
    PyObject* shadow = world_.outside_in_order()[at];
    const Outside& outside = *world_.find(shadow);
    PyObject* original = outside.original.get();
    if (world_.was_changed(shadow)) guard_apart(shadow);
    Effect effect{};
    auto push_items = [&](PyObject* items) {
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items); ++i)
        effect.values.push_back(describe_object(PyList_GET_ITEM(items, i)));
    };
    if (outside.kind == OutsideKind::kList && !original) {
      if (PyList_GET_SIZE(shadow) == 0) continue;
      effect.kind = EffectKind::kListExtend;
      push_items(shadow);
    } else if (outside.kind == OutsideKind::kList) {
      bool same = PyList_GET_SIZE(shadow) == PyList_GET_SIZE(original);
      for (Py_ssize_t i = 0; same && i < PyList_GET_SIZE(shadow); ++i)
        same = PyList_GET_ITEM(shadow, i) == PyList_GET_ITEM(original, i);
      if (same) continue;
      effect.kind = EffectKind::kListReplace;
      push_items(shadow);
    } else if (outside.kind == OutsideKind::kDict) {
      add_dict_effects(shadow, outside);
      continue;
    } else if (outside.kind == OutsideKind::kSet) {
      if (same_table(shadow, original)) continue;
      effect.kind = EffectKind::kSetReplace;
      effect.value = describe_set(sim_.keep(copy_set(shadow)));
    } else {
      continue;
    }
    effect.target = source(outside.source);
    guard_apart(shadow);
    capture_.effects.push_back(std::move(effect));
  }
}

void RecipeBuilder::add_write_effects() {
  for (size_t i = 0; i < world_.writes().size(); ++i) {
    const AttributeWrite& write = world_.writes()[i];
    if (!write.object) continue;
    PyObject* obj = write.object.get();
    const Outside* outside = world_.find(obj);
    const bool is_globals = PyDict_Check(obj) && !outside;
    const EffectKind deletes = is_globals ? EffectKind::kDictDelete : EffectKind::kDelAttr;
    const EffectKind sets = is_globals ? EffectKind::kDictSet : EffectKind::kSetAttr;
    Effect effect{deletes, outside ? source(outside->source) : constant(obj), constant(write.name.get()), {}, {}};
    if (write.anew) capture_.effects.push_back(effect);
    effect.value = write.value ? describe_object(write.value.get()) : capture_.recipes.add({});
    if (write.value) effect.kind = sets;
    if (PyCell_Check(obj)) effect.kind = EffectKind::kCellSet;
    if (outside) guard_apart(obj);
    capture_.effects.push_back(std::move(effect));
  }
}

void RecipeBuilder::add_item_effects() {
  for (const ItemWrite& write : world_.replaced_items()) {
    if (write.value.get() == write.original.get()) continue;  // it was put back
    const RecipeId target = source(world_.find(write.dict)->source);
    capture_.effects.push_back(
        {EffectKind::kDictSet, target, constant(write.key.get()), describe_object(write.value.get()), {}});
  }
}

// What the trace left of global state. Regions that were entered and left again leave nothing.
void RecipeBuilder::add_state_effects() {
  if (BreakPoint before = sim_.context_vars().first_set(); before.valid())
    throw StopTrace{TraceStop{StopReason::kCannotRebuild, "the state of a context variable", sim_.location_text()},
                    before};
  const bool leaves_autocast =
      !sim_.state_calls().empty() && (sim_.services().host.has_other_autocast() || leaves_region_of_caller(sim_));
  const std::pair<Ref, Ref>* last_grad_mode = nullptr;
  for (const auto& call_made : sim_.state_calls()) {
    const std::string name = name_of_setter(call_made.first.get());
    if (name == "_set_grad_enabled") {
      last_grad_mode = &call_made;
      continue;
    }
    if (!leaves_autocast && name.find("autocast") != std::string::npos) continue;
    Effect effect{EffectKind::kCall, constant(call_made.first.get()), {}, {}, {}};
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(call_made.second.get()); ++i)
      effect.values.push_back(describe_object(PyTuple_GET_ITEM(call_made.second.get(), i)));
    capture_.effects.push_back(std::move(effect));
  }
  if (auto [setter, type] = sim_.default_dtype_call(); setter)
    capture_.effects.push_back({EffectKind::kCall, constant(setter.get()), {}, {}, {constant(type.get())}});
  if (!last_grad_mode) return;
  PyObject* mode = PyTuple_GET_ITEM(last_grad_mode->second.get(), 0);
  if (mode == sim_.initial_grad_mode()) return;
  capture_.effects.push_back({EffectKind::kCall, constant(last_grad_mode->first.get()), {}, {}, {constant(mode)}});
}

// Contexts of the caller that the trace left, then those that it stands in.
void RecipeBuilder::add_device_effects() {
  const DeviceContexts& contexts = sim_.device_contexts();
  const RecipeId none = constant(Py_None);
  auto add = [&](PyObject* method, std::vector<RecipeId> args) {
    capture_.effects.push_back({EffectKind::kCall, constant(method), {}, {}, std::move(args)});
  };
  for (const Ref& device : contexts.left()) add(library().device_exit, {constant(device.get()), none, none, none});
  for (const Ref& device : contexts.entered()) add(library().device_enter, {constant(device.get())});
}

void RecipeBuilder::add_effects() {
  add_container_effects();
  add_write_effects();
  add_item_effects();
  add_state_effects();
  add_device_effects();
  capture_.effects.insert(capture_.effects.begin(), slot_effects_.begin(), slot_effects_.end());
}

}  // namespace framejit
