#include "tracer/set_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace framejit {
namespace {

PySetObject* as_set(PyObject* set) { return reinterpret_cast<PySetObject*>(set); }

bool is_small(const PySetObject* set) { return set->table == set->smalltable; }

// A place that was emptied holds an object of CPython's own, which is not counted.
bool holds_item(const setentry& entry) { return entry.key && entry.hash != -1; }

}  // namespace

Ref copy_set(PyObject* set) {
  const PySetObject* from = as_set(set);
  Ref made = Ref::steal(Py_TYPE(set)->tp_alloc(Py_TYPE(set), 0));
  if (!made) return nullptr;
  PySetObject* to = as_set(made.get());
  to->table = to->smalltable;
  to->mask = PySet_MINSIZE - 1;
  to->hash = -1;
  const size_t size = static_cast<size_t>(from->mask) + 1;
  if (!is_small(from)) {
    auto* table = static_cast<setentry*>(PyMem_Malloc(size * sizeof(setentry)));
    if (!table) return Ref::steal(PyErr_NoMemory());
    to->table = table;
  }
  std::copy(from->table, from->table + size, to->table);
  for (size_t i = 0; i < size; ++i)
    if (holds_item(to->table[i])) Py_INCREF(to->table[i].key);
  to->mask = from->mask;
  to->fill = from->fill;
  to->used = from->used;
  return made;
}

void put_in_place(PyObject* set, PyObject* old, PyObject* item) {
  PySetObject* into = as_set(set);
  setentry* end = into->table + into->mask + 1;
  setentry* place = std::find_if(into->table, end, [old](const setentry& entry) { return entry.key == old; });
  FJ_CHECK(place != end, "a set without an item that it had");
  Ref::steal(std::exchange(place->key, Ref::borrow(item).release()));
}

void take_table(PyObject* set, PyObject* from) {
  PySetObject* a = as_set(set);
  PySetObject* b = as_set(from);
  const bool a_small = is_small(a), b_small = is_small(b);
  std::swap_ranges(a->smalltable, a->smalltable + PySet_MINSIZE, b->smalltable);
  std::swap(a->table, b->table);
  if (b_small) a->table = a->smalltable;
  if (a_small) b->table = b->smalltable;
  std::swap(a->mask, b->mask);
  std::swap(a->fill, b->fill);
  std::swap(a->used, b->used);
}

bool same_table(PyObject* a, PyObject* b) {
  const PySetObject* left = as_set(a);
  const PySetObject* right = as_set(b);
  if (left->mask != right->mask || left->fill != right->fill || left->used != right->used) return false;
  return std::equal(left->table, left->table + left->mask + 1, right->table,
                    [](const setentry& x, const setentry& y) { return x.key == y.key; });
}

uint64_t table_shape(PyObject* set) {
  return static_cast<uint64_t>(as_set(set)->fill) << 32 | static_cast<uint32_t>(as_set(set)->mask);
}

}  // namespace framejit
