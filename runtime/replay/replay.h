// Replay: rebuilds what a captured segment leaves behind, out of its recipes, the graph's outputs and the objects that
// the sources give, and applies its effects to the program's own objects.
//
// A recipe is built at most once in a replay, so equal ids give the identical object. Containers are made empty first
// and filled when all that was asked for exists, so they may contain themselves. Sources are taken before the graph
// runs.
#pragma once

#include <vector>

#include "base/py_ref.h"
#include "graph/capture.h"
#include "runtime/cache/const_table.h"
#include "runtime/guards/guard_program.h"

namespace framejit::runtime {

// What does not change from call to call. Refers to the capture and the pool.
class ReplayPlan {
 public:
  ReplayPlan(const graph::Capture& capture, const ConstTable& pool);

  const graph::Capture& capture() const { return capture_; }
  const ConstTable& pool() const { return pool_; }
  // Recipes that are sources, in the order of the recipe table.
  const std::vector<graph::RecipeId>& source_recipes() const { return source_recipes_; }
  // Nonnegative: the segment returns this output of the graph and has no effects.
  int only_output() const { return only_output_; }
  // The pool does not hold this object any more; what a replay does may let go of it elsewhere.
  void hold_while_replayed(graph::ConstId id) { watched_.push_back(id); }
  const std::vector<graph::ConstId>& watched() const { return watched_; }

 private:
  const graph::Capture& capture_;
  const ConstTable& pool_;
  std::vector<graph::RecipeId> source_recipes_;
  std::vector<graph::ConstId> watched_;
  int only_output_ = -1;
};

// One replay. Build it after a guard hit and before the graph runs: it takes hold of the sources.
class Replay {
 public:
  Replay(const ReplayPlan& plan, const GuardProgram& guards);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  // The graph's outputs; steals the references.
  void set_outputs(PyObject** outputs, size_t count);

  // Applies all effects in order. False with a Python error.
  bool apply_effects();
  // The value of a recipe, complete with all that it contains; null without a Python error if it is unbound, null with
  // one if it cannot be built.
  Ref build(graph::RecipeId id);

 private:
  PyObject* make(graph::RecipeId id);
  Ref make_new(graph::RecipeId id, const graph::Recipe& recipe);
  Ref make_tuple(const graph::Recipe& recipe, uint32_t first = 0);
  Ref make_function(const graph::Recipe& recipe);
  Ref make_call(graph::RecipeId id, const graph::Recipe& recipe);
  Ref make_set_copy(const graph::Recipe& recipe);
  bool hashes_made(const graph::Recipe& recipe) const;
  bool fill_pending();
  bool fill_pending_for(graph::RecipeId id, Ref* made);
  bool fill(graph::RecipeId id);
  bool fill_list(PyObject* list, const graph::Recipe& recipe, uint32_t count);
  bool fill_mapping(PyObject* dict, const graph::Recipe& recipe, uint32_t count);
  bool fill_set(PyObject* set, const graph::Recipe& recipe);
  bool fill_attributes(PyObject* obj, const graph::Recipe& recipe, uint32_t first);
  bool make_parts(const graph::Recipe& recipe, uint32_t first, uint32_t end);
  PyObject* part(const graph::Recipe& recipe, uint32_t i);

  bool apply(const graph::Effect& effect);
  bool apply_to(const graph::Effect& effect, PyObject* target);
  Ref list_of(const std::vector<graph::RecipeId>& values);

  const ReplayPlan& plan_;
  const graph::RecipeTable& recipes_;
  std::vector<PyObject*> values_;  // by recipe; owned
  std::vector<Ref> watched_;
  std::vector<PyObject*> outputs_;                    // owned
  std::vector<graph::RecipeId> unfilled_, unhashed_;  // shells; the latter have keys or items that the replay makes
};

// dict[key] = value, dict.clear() on the mapping itself, whatever a subclass overrides; OrderedDict keeps its order.
bool set_dict_item(PyObject* dict, PyObject* key, PyObject* value);
bool delete_dict_item(PyObject* dict, PyObject* key);
bool clear_dict(PyObject* dict);

}  // namespace framejit::runtime
