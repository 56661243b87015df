#include "runtime/cache/compiled_entry.h"

#include <algorithm>

#include "base/check.h"
#include "runtime/cache/guard_objects.h"
#include "runtime/cache/segment.h"
#include "runtime/engine.h"
#include "tracer/plain_data.h"
#include "tracer/tracer.h"

namespace framejit::runtime {

using graph::GuardKind;

namespace {

constexpr const char* kCapsuleName = "framejit.entry";
constexpr size_t kInputsOnStack = 256;

bool leaves_no_trace(const graph::Capture& capture) {
  return capture.graph.live_node_count() == 0 && capture.effects.empty() && capture.frames.size() <= 1;
}

}  // namespace

CompiledEntry::CompiledEntry(std::unique_ptr<graph::Capture> capture, const ObjectPool& pool,
                             const TensorGuards& tensors, std::unique_ptr<Executable> executable)
    : capture_(std::move(capture)),
      objects_(objects_of(*capture_, pool)),
      guards_(*capture_, objects_, tensors),
      replay_(*capture_, objects_),
      executable_(std::move(executable)),
      output_count_(executable_ ? executable_->output_count() : 0),
      nothing_(leaves_no_trace(*capture_)),
      of_kept_frame_(capture_->of_kept_frame) {}

namespace {

bool holds_frames(PyObject* type) {
  if (!type || !PyType_Check(type)) return false;
  return type == reinterpret_cast<PyObject*>(&PyTraceBack_Type) || PyExceptionClass_Check(type);
}

// Looks for sources among the parts of recipes.
class SourceSearch {
 public:
  SourceSearch(const graph::RecipeTable& recipes, const std::unordered_set<uint32_t>& sources)
      : recipes_(recipes), sources_(sources), seen_(recipes.size(), false) {}

  bool finds(graph::RecipeId id) {
    if (!id.valid() || seen_[id.index()]) return false;
    seen_[id.index()] = true;
    const graph::Recipe& recipe = recipes_.at(id);
    if (recipe.kind == graph::RecipeKind::kSource) return sources_.count(recipe.source.value) != 0;
    for (uint32_t i = 0; i < recipe.part_count; ++i)
      if (finds(recipes_.part(recipe, i))) return true;
    return false;
  }

 private:
  const graph::RecipeTable& recipes_;
  const std::unordered_set<uint32_t>& sources_;
  std::vector<bool> seen_;
};

}  // namespace

bool CompiledEntry::keeps_exceptions() const {
  std::unordered_set<uint32_t> exceptions;
  for (const graph::Guard& guard : capture_->guards.rows())
    if (guard.kind == GuardKind::kTypeIs && holds_frames(objects_.at(guard.object)))
      exceptions.insert(guard.source.value);
  if (exceptions.empty()) return false;
  SourceSearch search(capture_->recipes, exceptions);
  return std::any_of(capture_->effects.begin(), capture_->effects.end(), [&](const graph::Effect& effect) {
    return search.finds(effect.value) || std::any_of(effect.values.begin(), effect.values.end(),
                                                     [&](graph::RecipeId id) { return search.finds(id); });
  });
}

bool CompiledEntry::give_numbers(PyObject** inputs) {
  const std::vector<uint32_t>& numbers = capture_->number_inputs;
  spare_numbers_.resize(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    PyObject*& input = inputs[numbers[i]];
    Ref tensor = engine().tensors()->tensor_of_number(input, std::move(spare_numbers_[i]));
    if (!tensor) return false;
    Py_SETREF(input, tensor.release());
  }
  return true;
}

// A call that goes on inside of this one, or on another thread, has its own.
void CompiledEntry::keep_numbers(PyObject* const* inputs) {
  for (size_t i = 0; i < spare_numbers_.size(); ++i)
    if (!spare_numbers_[i]) spare_numbers_[i] = Ref::borrow(inputs[capture_->number_inputs[i]]);
}

RunStatus CompiledEntry::run_graph(PyObject** outputs) {
  if (!executable_) return RunStatus::kDone;
  if (wrong_) return RunStatus::kUndone;
  const auto& sources = capture_->input_sources;
  PyObject* few[kInputsOnStack];
  std::vector<PyObject*> many;
  PyObject** inputs = few;
  if (sources.size() > kInputsOnStack) {
    many.resize(sources.size());
    inputs = many.data();
  }
  // Held: the graph runs without the interpreter lock, and another thread may replace an attribute meanwhile.
  for (size_t i = 0; i < sources.size(); ++i) Py_INCREF(inputs[i] = guards_.value(sources[i]));
  const bool given = capture_->number_inputs.empty() || give_numbers(inputs);
  const RunStatus status = given ? executable_->run(inputs, outputs) : RunStatus::kRaised;
  if (given) keep_numbers(inputs);
  for (size_t i = 0; i < sources.size(); ++i) Py_DECREF(inputs[i]);
  wrong_ = status == RunStatus::kWrong;
  return wrong_ ? RunStatus::kUndone : status;
}

// ---- objects that may die ----

// The weak reference's callback finds the entry through this.
struct EntryWatch {
  std::weak_ptr<CompiledEntry> entry;

  static PyObject* fire(PyObject* capsule, PyObject*) {
    auto* watch = static_cast<EntryWatch*>(PyCapsule_GetPointer(capsule, kCapsuleName));
    if (auto entry = watch->entry.lock()) entry->object_died();
    Py_RETURN_NONE;
  }
  static void free(PyObject* capsule) { delete static_cast<EntryWatch*>(PyCapsule_GetPointer(capsule, kCapsuleName)); }
};

namespace {

Ref make_callback(const std::shared_ptr<CompiledEntry>& entry, PyCFunction fire, PyCapsule_Destructor free) {
  static PyMethodDef method = {kEntryWatchName, nullptr, METH_O, nullptr};
  method.ml_meth = fire;
  Ref capsule = Ref::steal(PyCapsule_New(new EntryWatch{entry}, kCapsuleName, free));
  FJ_CHECK(static_cast<bool>(capsule), "out of memory");
  return Ref::steal(PyCFunction_New(&method, capsule.get()));
}

// The guard needs the object no longer than it lives by itself. Where a key is looked for, one of the kinds that are
// watched is hashed and compared by its address.
bool takes_address(GuardKind kind) {
  return kind == GuardKind::kIdIs || kind == GuardKind::kTypeAttrIs || kind == GuardKind::kTypeIs ||
         kind == GuardKind::kHasNoKey;
}

// A function of a C module that a program can drop. Of a module whose state is global, the interpreter keeps a copy.
bool is_of_a_module(PyObject* obj) {
  PyObject* self = PyCFunction_Check(obj) ? PyCFunction_GET_SELF(obj) : nullptr;
  const PyModuleDef* module = self && PyModule_Check(self) ? PyModule_GetDef(self) : nullptr;
  return module && module->m_size >= 0;
}

// exec() gives builtins to what it gets. Other dictionaries may be large: they are not searched.
bool may_be_globals(PyObject* dict) {
  return PyDict_CheckExact(dict) && PyDict_GetItemString(dict, "__builtins__") != nullptr;
}

bool is_dict_of_a_module(PyObject* dict) {
  PyObject* name = PyDict_GetItemString(dict, "__name__");
  PyObject* module = name && PyUnicode_Check(name) ? PyDict_GetItem(PyImport_GetModuleDict(), name) : nullptr;
  return module && PyModule_Check(module) && PyModule_GetDict(module) == dict;
}

// Of the globals that exec() gave its code: a function among them, which holds them, and dies with them. Null: none.
PyObject* function_in_its_globals(PyObject* dict) {
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);)
    if (PyFunction_Check(value) && PyFunction_GET_GLOBALS(value) == dict) return value;
  return nullptr;
}

// Of those, what the program itself holds: not the bound methods and the like that a capture came by.
bool is_held_by_program(PyObject* obj) {
  return PyFunction_Check(obj) || is_of_a_module(obj) || PyCode_Check(obj) || PyType_Check(obj) || PyModule_Check(obj);
}

}  // namespace

// By ConstId: needed as a value. What a source starts from and the code of a frame are alive where the guards hold.
std::vector<bool> CompiledEntry::objects_in_use(const Objects& owned_dicts) const {
  std::vector<bool> used(objects_.size(), false);
  auto use = [&](graph::ConstId id) {
    if (id.valid()) used[id.index()] = true;
  };
  for (const graph::Guard& guard : capture_->guards.rows())
    if (!takes_address(guard.kind)) use(guard.object);
  for (size_t i = 0; i < capture_->recipes.size(); ++i) {
    const graph::ConstId id = capture_->recipes.at(graph::RecipeId(i)).object;
    if (!id.valid()) continue;
    PyObject* obj = objects_.at(id);
    if (!is_held_by_program(obj) && !owned_dicts.contains(obj)) use(id);
  }
  return used;
}

// By ConstId: part of the capture. The others are of passes that were given up.
std::vector<bool> CompiledEntry::objects_named() const {
  std::vector<bool> named(objects_.size(), false);
  auto name = [&](graph::ConstId id) {
    if (id.valid()) named[id.index()] = true;
  };
  for (const graph::Guard& guard : capture_->guards.rows()) name(guard.object);
  for (size_t i = 0; i < capture_->sources.size(); ++i) name(capture_->sources.at(graph::SourceId(i)).object);
  for (size_t i = 0; i < capture_->recipes.size(); ++i) name(capture_->recipes.at(graph::RecipeId(i)).object);
  for (const graph::TensorFacts& facts : capture_->tensor_facts) name(facts.python_type);
  for (const graph::FrameExit& frame : capture_->frames) name(frame.code);
  for (graph::ConstId id : capture_->classes) name(id);
  for (graph::ConstId id : capture_->callees) name(id);
  return named;
}

// Nothing can watch a dictionary, but these live as long as modules and functions that the capture holds or watches.
CompiledEntry::Objects CompiledEntry::dicts_of_owners(const std::vector<bool>& named) const {
  Objects dicts;
  for (size_t i = 0; i < named.size(); ++i) {
    if (!named[i]) continue;
    PyObject* obj = objects_.at(graph::ConstId(i));
    if (PyModule_Check(obj) && PyModule_GetDict(obj)) dicts.insert(PyModule_GetDict(obj));
    if (PyFunction_Check(obj)) dicts.insert(PyFunction_GET_GLOBALS(obj));
  }
  return dicts;
}

void CompiledEntry::watch_objects(const std::shared_ptr<CompiledEntry>& entry, Segment* segment) {
  entry->segment_ = segment;
  const std::vector<bool> named = entry->objects_named();
  Objects owned_dicts = entry->dicts_of_owners(named);
  std::vector<bool> replayed(named.size(), false);
  for (size_t i = 0; i < entry->capture_->recipes.size(); ++i)
    if (graph::ConstId id = entry->capture_->recipes.at(graph::RecipeId(i)).object; id.valid())
      replayed[id.index()] = true;
  Ref callback;
  auto watch = [&](PyObject* obj) {
    if (!callback) callback = make_callback(entry, &EntryWatch::fire, &EntryWatch::free);
    Ref made = Ref::steal(PyWeakref_NewRef(obj, callback.get()));
    if (!made) {
      PyErr_Clear();
      return false;
    }
    entry->watches_.push_back(std::move(made));
    return true;
  };
  for (size_t i = 0; i < named.size(); ++i) {
    PyObject* obj = entry->objects_.at(graph::ConstId(i));
    if (!named[i] || owned_dicts.contains(obj) || !may_be_globals(obj) || is_dict_of_a_module(obj)) continue;
    if (PyObject* function = function_in_its_globals(obj); function && watch(function)) owned_dicts.insert(obj);
  }
  const std::vector<bool> used = entry->objects_in_use(owned_dicts);
  for (PyObject* obj : weak_items(*entry->capture_, entry->objects_)) watch(obj);
  for (size_t i = 0; i < used.size(); ++i) {
    graph::ConstId id(i);
    PyObject* obj = entry->objects_.at(id);
    if (!named[i]) {
      entry->objects_.let_go(id);
      continue;
    }
    if (used[i] || !(owned_dicts.contains(obj) || (worth_watching(obj) && watch(obj)))) continue;
    entry->objects_.let_go(id);
    if (replayed[i]) entry->replay_.hold_while_replayed(id);
  }
}

void CompiledEntry::object_died() {
  dead_ = true;
  if (segment_) segment_->lose(this);
}

}  // namespace framejit::runtime
