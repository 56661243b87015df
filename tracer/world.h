// World: what the trace knows of the program's own objects. Each has one representation in the trace, and the same
// object reached twice has the same one:
//  - a tensor: its fake;
//  - an exact list, dict, set or a tuple with such things in it: a shadow, a real container that holds representations.
//    The trace reads and changes the shadow; what changed is found by comparison when the capture ends. A list is read,
//    and guarded, only when something looks at it: one that is only appended to may have any contents;
//  - any other object (a module, an instance, an OrderedDict): itself, with writes kept in an overlay;
//  - immutable plain data, types, functions, modules: themselves, guarded when something first relies on them.
// What cannot be followed (a sparse tensor, a number that changes in a container, a dict with tensors as keys on the
// segment's stack) is set aside: an object of a type of its own stands for it, which is handed on like any other. The
// trace stops at what looks at it.
// Invariant: no container that the simulation can see holds a raw outside tensor or mutable container.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/address_pair_set.h"
#include "graph/capture.h"
#include "tracer/object_pool.h"
#include "tracer/plain_data.h"
#include "tracer/source_path.h"
#include "tracer/sym_value.h"
#include "tracer/tensor_host.h"
#include "tracer/trace_stop.h"

namespace framejit {

enum class OutsideKind : uint8_t { kTensor, kList, kDict, kSet, kTuple, kOpaque };

struct Outside {
  OutsideKind kind;
  Ref real;
  graph::SourceId source;
  Ref original;  // shallow copy of a shadow as it was made, to find changes; null for a list that was not read
};

// Attribute writes to outside objects, in program order of the first write to each (object, name) that was not
// followed by a deletion.
struct AttributeWrite {
  Ref object;  // null: it moved into the representation of the instance's dictionary
  Ref name;
  Ref value;          // null: deleted
  bool anew = false;  // it was deleted before, so its key comes last
};

// What the trace put in the place of an item of a dictionary of a subclass, which keeps its keys and their order.
struct ItemWrite {
  PyObject* dict;  // outside
  Ref key;         // a string
  Ref original;    // as it was when the trace began
  Ref value;
};

class World {
 public:
  // `changing`: numbers on whose value no guard is wanted; looking at one stops the trace. `inputs`: floats that the
  // graph takes as inputs. `make_stand_in`: for what is set aside.
  World(graph::Capture& capture, ObjectPool& pool, TensorHost& host, const SourcePaths& changing,
        const SourcePaths& inputs, std::function<Ref()> make_stand_in)
      : capture_(capture),
        pool_(pool),
        host_(host),
        changing_(changing),
        number_inputs_(inputs),
        make_stand_in_(std::move(make_stand_in)) {}

  // The representation of an object that the program holds and `source` reads. Throws StopTrace for what cannot be
  // followed.
  SymValue wrap(PyObject* real, graph::SourceId source);
  // Only its type is relied on. `why`: the stop at what looks at it.
  SymValue set_aside(PyObject* real, graph::SourceId source, TraceStop why);
  bool is_aside(PyObject* obj) const { return !aside_.empty() && aside_.count(obj) != 0; }
  void require_followed(PyObject* obj) const;
  // What the program has for an object of the trace: itself, if that is not known.
  PyObject* stands_for(PyObject* obj) const { return is_aside(obj) ? aside_.at(obj).real : obj; }
  // Guards what `value` is, if that has not been done; afterwards the object may be relied on. Stops at a number of the
  // graph, and at what is set aside.
  PyObject* realise(SymValue& value);

  // The same for what is put into a container, an attribute or a variable, where a number of the graph and what is set
  // aside may be.
  PyObject* hold(SymValue& value);
  // Where a number of the graph may be.
  PyObject* hold_number(SymValue& value);

  // Numbers of the graph (tracer/numbers.cpp), each an object that stands for it
  // (TensorHost::number_object): what looks at one ends the trace. `tensor`: the fake that is the number as a tensor.
  PyObject* add_number(Ref stand_in, Ref tensor);
  bool is_number(PyObject* obj) const { return !numbers_.empty() && numbers_.count(obj) != 0; }
  // Makes a number of a float that was read and is to be an input.
  bool is_number(SymValue& value);
  // Itself, or in a tuple, a list or a dictionary.
  bool holds_number(PyObject* obj, int depth = 0) const;
  // Null: an input that the graph has not asked for yet.
  PyObject* number_tensor(PyObject* number) const { return numbers_.at(number).tensor; }
  PyObject* add_number_input(PyObject* number, Ref tensor);
  // Where an input is read; invalid for what the graph computes.
  graph::SourceId number_source(PyObject* number) const { return numbers_.at(number).source; }
  // What an input is in this call.
  double number_value(PyObject* number) const { return numbers_.at(number).value; }

  const Outside* find(PyObject* representation) const {
    auto it = outside_.find(representation);
    return it == outside_.end() ? nullptr : &it->second;
  }
  // The representation already given to a real object, or null.
  PyObject* representation(PyObject* real) const {
    auto it = representations_.find(real);
    return it == representations_.end() ? nullptr : it->second;
  }
  // Guards which object this is, where its representation does not say so: a function that was found by its code.
  void rely_on_identity(PyObject* obj);
  // The same of a key: which object it is, if it hashes by its value, as dates, paths and numbers of subclasses do.
  void rely_on_hashed_value(PyObject* obj);
  // Of a special form or a type of typing: which one it is, if the program holds it.
  void rely_on_typing_object(PyObject* obj);
  // Where an object is read again: an outside object's source; a constant source for types, functions and modules; an
  // invalid id for what the trace made itself.
  graph::SourceId source_of(PyObject* representation);
  // Where plain data of the program's with an identity of its own (has_equals) was found: what goes on with it goes
  // on with the same object, not with an equal one. Invalid for others.
  graph::SourceId place_of(PyObject* plain) const {
    auto it = places_.find(plain);
    return it == places_.end() ? graph::SourceId() : it->second.first;
  }
  // Guards that the places where such an object was found hold one and the same.
  void rely_on_one_object(PyObject* plain);
  bool is_fresh(PyObject* obj) { return !source_of(obj).valid(); }

  void guard(graph::GuardKind kind, graph::SourceId source, PyObject* object = nullptr, uint64_t number = 0);
  // By value: the keys of a dictionary, what a set gives.
  void guard_items(graph::GuardKind kind, graph::SourceId source, PyObject* items, uint64_t number = 0);
  // Whether it was found among such items: it cannot be read again, so another call's may be another object.
  bool is_without_place(PyObject* plain) const { return without_place_.count(plain) != 0; }
  void guard_same(graph::SourceId a, graph::SourceId b, bool same);
  // Guards, once in a capture, what a constant type or dictionary has by that name. Null: nothing.
  void rely_on_type_attr(PyTypeObject* type, PyObject* name, PyObject* found);
  // The same where the caller reads it from there: of a number only that it is one, a look at its value guards that.
  void rely_on_type_attr_read(PyTypeObject* type, PyObject* name, PyObject* found);
  void rely_on_mro(PyTypeObject* type);
  // Of a C function without arguments.
  void rely_on_answer(PyObject* question, PyObject* answer);
  void rely_on_item(PyObject* dict, PyObject* name, PyObject* value);
  // False: that was done before.
  bool rely_on_code(PyObject* function);
  // What was found but never looked at (hasattr) must at least be there: to be called when the capture ends.
  void guard_existence();

  // Overlay of attribute writes. `found`: whether the overlay knows the name; a null value means it was deleted.
  struct OverlayRead {
    bool found = false;
    PyObject* value = nullptr;
  };
  // The representation of a dictionary that is reached at `at` (invalid: a dictionary of the trace), or null. The trace
  // may know it from elsewhere, so it has to be the same there in each call.
  PyObject* shown_at(PyObject* dict, graph::SourceId at);
  // Of a dictionary that a guard says is the same in each call: a function's globals, or a module's.
  PyObject* shown_globals(PyObject* dict);
  // Of the dictionary of an object, which may have none. One of a subclass stands for itself and shows no writes.
  PyObject* shown_of(PyObject* object, PyObject* dict);
  OverlayRead overlay(PyObject* object, PyObject* name) const;
  // Whether a dictionary's representation, null where it has none, has another value for the name than it had.
  bool shows_other(PyObject* shadow, PyObject* dict, PyObject* name) const;
  // Whether the trace gave a dictionary of globals another value for the name.
  bool changes_global(PyObject* globals, PyObject* name) const;
  // Whether the trace wrote, or may have written, a name of a module of torch or of the standard library: what runs for
  // real does not see it.
  bool changes_library() const { return changes_library_; }
  void write(PyObject* object, PyObject* name, Ref value);
  // From here on the dictionary's representation tells what the instance holds: what was written before goes into it.
  void move_writes(PyObject* object, PyObject* dict);
  // The same for the object that has this dictionary of the program's, a function's globals among them.
  void move_writes_to(PyObject* dict);
  const std::vector<AttributeWrite>& writes() const { return writes_; }
  // Those with something in the overlay that is no field of the type, in the order of the writes.
  std::vector<PyObject*> written_objects() const;
  // The dictionaries that calls took defaults from, and where they are reached.
  void note_keyword_defaults(PyObject* dict, graph::SourceId source);
  const std::vector<std::pair<PyObject*, graph::SourceId>>& keyword_defaults() const { return keyword_defaults_; }
  // Several objects can have one dictionary: the overlay is of one of them.
  void note_written_dict(PyObject* dict, PyObject* object) { written_dicts_.emplace(dict, object); }
  bool is_written_through_another(PyObject* dict, PyObject* object) const {
    auto it = written_dicts_.empty() ? written_dicts_.end() : written_dicts_.find(dict);
    return it != written_dicts_.end() && it->second != object;
  }
  // The tensors from outside that are differentiated have to stay different objects.
  void require_apart() { apart_ = true; }
  bool are_apart() const { return apart_; }

  // An item of an outside dictionary of a subclass, `real` as the dictionary holds it.
  SymValue dict_item(PyObject* dict, PyObject* key, PyObject* real);
  void replace_item(PyObject* dict, PyObject* key, Ref value);
  const std::vector<ItemWrite>& replaced_items() const { return replaced_items_; }

  // An item of this container was set or deleted. What was put back when the capture ends was read changed before, so
  // the container must not be another of the program's either way.
  void note_changed(PyObject* container);
  bool was_changed(PyObject* container) const { return changed_.count(container) != 0; }
  // A key was removed from this dictionary, by clear() all of them. Iterators that the program has over it find out,
  // even where keys and their order come to be what they were: what is deleted leaves a hole in the table, popitem()
  // and clear() none.
  enum class Removal : uint8_t { kDeleted, kPopped, kCleared };
  void note_removed(PyObject* dict, Removal how, PyObject* key = nullptr);
  struct Removals {
    bool cleared = false;
    std::vector<std::pair<Removal, Ref>> keys;  // of those that it had when the trace began, in program order
    Ref gone;                                   // the same as a set
  };
  const Removals* removals(PyObject* dict) const;  // null: none
  // Whether one of them holds the parameters, buffers or submodules of a module.
  bool has_changed_module_table() const { return changed_module_table_; }
  // Guards the type of a table of a module, once for each: one of a class of its own may look names up in its own way.
  void rely_on_table_type(PyObject* table, graph::SourceId source);

  // Whether each read gives the same object, not one that is made for it.
  bool is_read_in_place(graph::SourceId source) const;

  // Whether an argument, a local or the stack leads to it: each call may bring another.
  bool comes_with_the_frame(graph::SourceId source) const;

  // Whether a name is looked up in the dictionary, one of the program's, without a key's own __eq__.
  bool compares_keys_in_c(PyObject* dict);

  // Whether this is the shadow of a list of which nothing was read: it holds only what the trace has appended.
  bool is_unread(PyObject* obj) const { return !unread_.empty() && unread_.count(obj); }

  // Functions and descriptors around them that the trace made: what they hold are values of the trace.
  std::unordered_set<PyObject*>& made_constants() { return made_constants_; }

  // While it is on, what is read from outside must be constants and plain data.
  bool set_frozen(bool on) { return std::exchange(frozen_, on); }

  const std::unordered_map<PyObject*, Outside>& outside() const { return outside_; }
  const std::vector<PyObject*>& outside_in_order() const { return order_; }
  graph::Capture& capture() { return capture_; }
  ObjectPool& pool() { return pool_; }
  TensorHost& host() { return host_; }
  graph::SourceTable& sources() { return capture_.sources; }

 private:
  bool is_among(const SourcePaths& paths, graph::SourceId source) const;
  bool is_changing_number(PyObject* obj, graph::SourceId source) const;
  bool has_changing_item(graph::SourceId tuple) const;
  PyObject* number_at(graph::SourceId source, PyObject* value);
  [[noreturn]] void stop_at_number(PyObject* number) const;
  struct Places {
    graph::SourceId first;
    std::vector<graph::SourceId> others;
  };
  void note_place(PyObject* plain, graph::SourceId source);
  bool is_field(const AttributeWrite& write) const;  // of a slot, and not in the dictionary
  ItemWrite* replaced_item(PyObject* dict, PyObject* key);
  PyObject* add(OutsideKind kind, Ref representation, PyObject* real, graph::SourceId source, Ref original);
  Ref wrap_item(PyObject* real, graph::SourceId source);
  void require_frozen(PyObject* real) const;
  SymValue wrap_tensor(PyObject* real, graph::SourceId source);
  bool may_be_made_anew(PyObject* function, graph::SourceId source) const;
  SymValue wrap_function(PyObject* real, graph::SourceId source);
  SymValue wrap_list(PyObject* real, graph::SourceId source);
  void read_list(PyObject* shadow);
  SymValue wrap_tuple(PyObject* real, graph::SourceId source);
  SymValue wrap_dict(PyObject* real, graph::SourceId source);
  SymValue wrap_set(PyObject* real, graph::SourceId source);

  graph::Capture& capture_;
  ObjectPool& pool_;
  TensorHost& host_;
  const SourcePaths& changing_;
  const SourcePaths& number_inputs_;
  std::function<Ref()> make_stand_in_;
  std::unordered_map<PyObject*, Outside> outside_;            // by representation; holds it alive through kept_
  std::unordered_map<PyObject*, PyObject*> representations_;  // real -> representation
  struct Aside {
    PyObject* real;  // the frame holds it
    graph::SourceId source;
    TraceStop why;
  };
  std::unordered_map<PyObject*, Aside> aside_;  // by what stands for it
  std::unordered_set<PyObject*> unread_;
  std::unordered_set<PyObject*> compared_in_c_;  // dictionaries
  AddressPairSet read_numbers_;                  // those of the classes that have them, and their names
  AddressPairSet relied_on_;  // a holder and a name in it (null: its MRO or its code); both live as long as the pool
  std::vector<bool> typed_tables_;      // by source: its type is guarded
  std::vector<graph::SourceId> found_;  // sources of values that are guarded only when something relies on them
  std::unordered_set<PyObject*> made_constants_;
  std::unordered_map<PyObject*, Places> places_;  // the objects live as long as the pool
  std::unordered_set<PyObject*> without_place_;
  std::vector<PyObject*> order_;
  int depth_ = 0;  // of containers that are being read
  bool frozen_ = false;
  std::vector<Ref> kept_;
  static constexpr int kDeepestHeld = 6;
  struct Number {
    PyObject* tensor = nullptr;
    graph::SourceId source;
    double value = 0;  // of an input
  };
  std::unordered_map<PyObject*, Number> numbers_;       // kept_ has both objects
  std::unordered_map<uint32_t, PyObject*> numbers_at_;  // by source
  std::vector<AttributeWrite> writes_;
  std::vector<std::pair<PyObject*, graph::SourceId>> keyword_defaults_;
  std::unordered_map<PyObject*, PyObject*> written_dicts_;
  bool apart_ = false;
  std::vector<ItemWrite> replaced_items_;
  std::unordered_set<PyObject*> changed_;
  std::unordered_map<PyObject*, Removals> removals_;
  bool changed_module_table_ = false, changes_library_ = false;
  std::unordered_map<PyObject*, std::vector<size_t>> writes_by_object_;
};

}  // namespace framejit
