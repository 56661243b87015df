// Sets with their tables. The order in which a set gives its items comes from its table, which comes from all that was
// ever added and removed: only a copy of the table gives them alike, and goes on doing so when items are added.
#pragma once

#include <cstdint>

#include "base/py_ref.h"

namespace framejit {

// A set or frozenset of the same exact type with the same table. Null with a Python error.
Ref copy_set(PyObject* set);
// `set` gets the table of `from`, a set that no program refers to, and that the old one.
// `item`, which equals `old`, takes the place of that in the set.
void put_in_place(PyObject* set, PyObject* old, PyObject* item);
void take_table(PyObject* set, PyObject* from);
bool same_table(PyObject* a, PyObject* b);
// Sizes of the table: with the items in their order, what decides the order of later items.
uint64_t table_shape(PyObject* set);

}  // namespace framejit
