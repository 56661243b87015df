// Recipes: how to build a Python value when a captured segment ends. Effects: what to change in the program's own
// objects. Data only; replayed in runtime/. A recipe is built at most once in a replay, so equal ids mean the identical
// object.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/source.h"

namespace framejit::graph {

using RecipeId = Id<struct RecipeTag>;

enum class RecipeKind : uint8_t {
  kUnbound,      // no value: an unbound local, a NULL stack slot
  kSource,       // source: read before any effect
  kConst,        // object
  kOutput,       // index: tensor output of the graph
  kNumber,       // index: output of the graph that is a number (graph/number.h)
  kList,         // parts: items
  kTuple,        // parts: items
  kDict,         // parts: key, value, key, value ...
  kSet,          // parts: items
  kFrozenSet,    // parts: items
  kSetCopy,      // object: a set or frozenset, of which each replay makes a copy with the same table; parts: item,
                 // what takes its place, item ...
  kSlice,        // parts: start, stop, step
  kCell,         // parts: contents, or none for an empty cell
  kBoundMethod,  // parts: function, self
  kFunction,     // parts: code, globals, name (qualname), defaults, kwdefaults, closure tuple, annotations; unset:
                 // kUnbound
  kObject,       // object: the type; parts: key, value ... of the instance dictionary. Made by the type's tp_new
                 // without arguments (object.__new__), filled without __setattr__
  kTypedTuple,   // object: a tuple subclass (namedtuple); parts: items
  kTypedDict,  // object: a dict subclass; parts: n_items as constant-free count in `index`, then key, value ... of the
               // mapping, then key, value ... of the instance dictionary
  kTypedList,  // object: a list subclass; index items, then instance dictionary
  kCall,       // parts: callable, then positional arguments: only pure constructors (iterators from __reduce__)
  kSetState,   // parts: object, state: obj.__setstate__(state), value is the object
  kAdvance,    // parts: iterator, of which `index` items are taken; value is the iterator
};

struct Recipe {
  RecipeKind kind = RecipeKind::kUnbound;
  uint32_t index = 0;
  SourceId source;
  ConstId object;
  uint32_t first_part = 0;  // range in RecipeTable::parts
  uint32_t part_count = 0;
};

class RecipeTable {
 public:
  RecipeId reserve() {
    rows_.emplace_back();
    return RecipeId(rows_.size() - 1);
  }
  RecipeId add(const Recipe& recipe) {
    rows_.push_back(recipe);
    return RecipeId(rows_.size() - 1);
  }
  // Containers and objects may contain themselves: reserve an id, describe the parts, then set.
  void set(RecipeId id, Recipe recipe, const std::vector<RecipeId>& parts) {
    recipe.first_part = static_cast<uint32_t>(parts_.size());
    recipe.part_count = static_cast<uint32_t>(parts.size());
    parts_.insert(parts_.end(), parts.begin(), parts.end());
    rows_[id.index()] = recipe;
  }
  const Recipe& at(RecipeId id) const { return rows_[id.index()]; }
  RecipeId part(const Recipe& recipe, uint32_t i) const { return parts_[recipe.first_part + i]; }
  size_t size() const { return rows_.size(); }

 private:
  std::vector<Recipe> rows_;
  std::vector<RecipeId> parts_;
};

enum class EffectKind : uint8_t {
  kSetAttr,       // target.name = value through object.__setattr__ (PyObject_GenericSetAttr)
  kDelAttr,       // name; nothing if it is not there
  kSetSlot,       // key: the member descriptor of the slot, which a subclass may hide behind another attribute
  kTypeSetAttr,   // target is a type: type.__setattr__
  kDictSet,       // target[key] = value on an exact dict or by PyObject_SetItem of a dict subclass's dict part
  kDictDelete,    // key; nothing if it is not there
  kDictReplace,   // values: key, value ...: clear, then set in this order
  kListExtend,    // values: items to append
  kListReplace,   // values: all items: target[:] = items
  kSetReplace,    // value: a set, whose items and order it gets
  kDequeReplace,  // values: all items: clear, extend
  kCellSet,       // target cell, value; unbound value: empty the cell
  kCall,          // target: a callable; values: arguments: global-state setters such as torch._C._set_grad_enabled
};

struct Effect {
  EffectKind kind;
  RecipeId target;
  RecipeId key;  // name or key
  RecipeId value;
  std::vector<RecipeId> values;
};

}  // namespace framejit::graph
