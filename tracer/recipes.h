// Turns what the simulation left behind into data: recipes for the values that live on, effects on the program's
// objects.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tracer/simulator.h"

namespace framejit {

class RecipeBuilder {
 public:
  explicit RecipeBuilder(Simulator& sim);

  // `kept`: the segment's own frame, if that is kept (SegmentStart::kept).
  void finish_return(SymValue value, const SimFrame* kept);
  // The frames from the segment's own to the innermost, as they stand before their current instructions. Of a local
  // that is not read again only what else is rebuilt or comes from outside; unbound ones of the segment's own frame are
  // named.
  void finish_break();

 private:
  graph::RecipeId describe(const SymValue& value);
  graph::RecipeId describe_object(PyObject* obj);
  graph::RecipeId describe_fresh(PyObject* obj);
  graph::RecipeId describe_tensor(PyObject* fake);
  graph::RecipeId describe_number(PyObject* number);
  graph::RecipeId describe_function(PyObject* function);
  graph::RecipeId describe_descriptor(PyObject* descriptor);
  bool holds_found(PyObject* plain) const;
  bool is_constant(PyObject* obj) const;
  graph::RecipeId describe_exception(PyObject* obj);
  graph::RecipeId describe_instance(PyObject* obj);
  graph::RecipeId describe_iterator(PyObject* obj);
  std::optional<graph::RecipeId> describe_live_iterator(PyObject* obj);
  bool has_other_keys(PyObject* container) const;
  graph::RecipeId constant(PyObject* obj);
  graph::RecipeId source(graph::SourceId id);
  graph::RecipeId call(PyObject* callable, const std::vector<graph::RecipeId>& args);
  graph::RecipeId build(PyObject* obj, graph::RecipeKind kind, const std::vector<PyObject*>& parts,
                        PyObject* type = nullptr, uint32_t index = 0);
  [[noreturn]] void cannot_rebuild(PyObject* obj);

  graph::FrameExit describe_frame(size_t index);
  bool is_held_anyway(PyObject* obj, int depth);
  void describe_kept_locals(const SimFrame& frame);
  bool is_cell_of_the_real_frame(const SimFrame& frame, uint32_t slot) const;
  void add_unread_locals();
  void add_effects();
  void add_dict_effects(PyObject* shadow, const Outside& outside);
  void add_container_effects();
  void add_write_effects();
  void add_item_effects();
  void add_state_effects();
  void add_device_effects();
  void add_function_attributes(PyObject* function, graph::RecipeId recipe);
  void add_attribute(graph::RecipeId recipe, PyObject* name, PyObject* value);
  graph::RecipeId describe_set(PyObject* set);
  graph::RecipeId describe_type_form(PyObject* form);
  void add_attributes(graph::RecipeId recipe, PyObject* obj, PyObject* dict);
  void add_slot_effects(PyObject* obj, graph::RecipeId recipe);
  void add_slot_effect(graph::RecipeId recipe, PyObject* member, const Ref& value);
  void add_field_effects(PyObject* obj, graph::RecipeId recipe, PyObject* plain);
  void guard_apart(PyObject* changed);
  void add_apart_guards();
  void guard_dictionaries_apart(uint64_t number);
  void finish_graph();

  Simulator& sim_;
  World& world_;
  graph::Capture& capture_;
  std::vector<PyObject*> describing_;  // from the outside in
  std::unordered_map<PyObject*, graph::RecipeId> memo_;
  std::vector<PyObject*> outputs_;
  std::vector<graph::Effect> slot_effects_;
  using Likeness = std::pair<OutsideKind, PyTypeObject*>;
  std::vector<Likeness> apart_;                      // of the objects from outside that are changed
  std::vector<std::pair<size_t, uint32_t>> unread_;  // frame, slot: of a break, not live there
};

}  // namespace framejit
