// Objects that differ today, and have to in each call, because the segment changes one of them or uses them as keys.
#include <algorithm>
#include <unordered_set>

#include "tracer/attributes.h"
#include "tracer/recipes.h"

namespace framejit {

// A change to one of several objects that are distinct today: the capture holds only while they stay so.
void RecipeBuilder::guard_apart(PyObject* changed) {
  const Outside& mine = *world_.find(changed);
  const Likeness kind(mine.kind, Py_TYPE(mine.real.get()));
  if (std::find(apart_.begin(), apart_.end(), kind) == apart_.end()) apart_.push_back(kind);
}

// Once for all that was changed, when all that is read is known and the graph has ended. Gradients of two tensors are
// not added up as those of one are. And of keys those that were.
void RecipeBuilder::add_apart_guards() {
  const bool tensors_are_apart = world_.are_apart() || sim_.services().host.has_history();
  for (PyObject* obj : world_.outside_in_order())
    if (tensors_are_apart && world_.find(obj)->kind == OutsideKind::kTensor) guard_apart(obj);
  std::vector<std::pair<Likeness, std::vector<graph::SourceId>>> sets;
  for (PyObject* obj : world_.outside_in_order()) {
    const Outside& outside = *world_.find(obj);
    const Likeness likeness(outside.kind, Py_TYPE(outside.real.get()));
    const bool was_changed = std::find(apart_.begin(), apart_.end(), likeness) != apart_.end();
    if (!was_changed && !sim_.was_key(obj)) continue;
    auto set = std::find_if(sets.begin(), sets.end(), [&](const auto& each) { return each.first == likeness; });
    if (set == sets.end()) set = sets.emplace(set, likeness, std::vector<graph::SourceId>());
    set->second.push_back(outside.source);
  }
  uint64_t number = 0;
  for (const auto& [likeness, members] : sets) {
    if (members.size() == 2) world_.guard_same(members[0], members[1], false);
    if (members.size() <= 2) continue;
    for (graph::SourceId member : members) world_.guard(graph::GuardKind::kApart, member, nullptr, number);
    ++number;
  }
  guard_dictionaries_apart(number);
}

namespace {

// The sources through which the trace has read dictionaries that are no values of it, by what they belong to.
struct DictionariesRead {
  std::unordered_set<graph::SourceId> of_objects;
  std::vector<graph::SourceId> globals;  // several times each

  explicit DictionariesRead(const graph::SourceTable& sources) {
    for (uint32_t i = 0; i < sources.size(); ++i) {
      const graph::Source& source = sources.at(graph::SourceId(i));
      if (source.kind == graph::SourceKind::kInstanceDict) of_objects.insert(source.base);
      if (source.kind == graph::SourceKind::kDictItem && sources.at(source.base).kind == graph::SourceKind::kConst)
        globals.push_back(source.base);
    }
  }
};

}  // namespace

// Each dictionary is one place today. Where one of them is changed they all have to stay apart, be they values, what an
// object keeps its attributes in, globals or defaults.
void RecipeBuilder::guard_dictionaries_apart(uint64_t number) {
  auto is_dict = [](PyTypeObject* type) { return PyType_HasFeature(type, Py_TPFLAGS_DICT_SUBCLASS) != 0; };
  const bool was_changed =
      std::any_of(apart_.begin(), apart_.end(), [&](const Likeness& likeness) { return is_dict(likeness.second); });
  const std::vector<PyObject*> written = world_.written_objects();
  if (!was_changed && written.empty()) return;
  const std::unordered_set<PyObject*> is_written(written.begin(), written.end());
  std::vector<graph::SourceId> members;
  std::unordered_set<PyObject*> known;
  graph::SourceTable& sources = world_.sources();
  auto add = [&](PyObject* dict, graph::SourceId source) {
    if (!dict || known.insert(dict).second) members.push_back(source);
  };
  const DictionariesRead read(sources);
  for (PyObject* obj : world_.outside_in_order())
    if (const Outside& outside = *world_.find(obj); is_dict(Py_TYPE(outside.real.get())))
      add(outside.real.get(), outside.source);
  for (PyObject* obj : world_.outside_in_order()) {
    const Outside& outside = *world_.find(obj);
    PyObject* dict = instance_dict(outside.real.get());
    if ((dict && is_written.count(obj)) || read.of_objects.count(outside.source))
      add(dict, sources.read(graph::SourceKind::kInstanceDict, outside.source));
  }
  for (PyObject* obj : written)
    if (!world_.find(obj)) add(obj, sources.constant(world_.pool().add(obj)));
  for (graph::SourceId source : read.globals) add(world_.pool().at(sources.at(source).object), source);
  for (const auto& [dict, source] : world_.keyword_defaults()) add(dict, source);
  if (members.size() < 2) return;
  for (graph::SourceId member : members) world_.guard(graph::GuardKind::kApart, member, nullptr, number);
}

}  // namespace framejit
