#include "runtime/guards/container_guards.h"

#include "base/py_ref.h"
#include "runtime/guards/plain_data.h"
#include "tracer/set_table.h"

namespace framejit::runtime {
namespace {

bool table_gives(const PySetObject* set, PyObject* expected) {
  Py_ssize_t i = 0;
  for (const setentry* entry = set->table; entry <= set->table + set->mask; ++entry) {
    const bool is_item = entry->key && entry->hash != -1;  // that of a removed one
    if (is_item && !same_plain_data(entry->key, PyTuple_GET_ITEM(expected, i++))) return false;
  }
  return true;
}

}  // namespace

bool keys_equal(PyObject* dict, PyObject* keys) {
  if (!dict || !PyDict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(keys)) return false;
  if (PyDict_CheckExact(dict)) {
    Py_ssize_t position = 0, i = 0;
    for (PyObject *key, *value; PyDict_Next(dict, &position, &key, &value); ++i)
      if (!same_plain_data(key, PyTuple_GET_ITEM(keys, i))) return false;
    return true;
  }
  // A subclass may keep an order of its own, as OrderedDict does; its own __iter__ is not asked.
  Ref iterator = Ref::steal((PyODict_Check(dict) ? PyODict_Type : PyDict_Type).tp_iter(dict));
  Py_ssize_t i = 0;
  bool equal = static_cast<bool>(iterator);
  while (equal) {
    Ref key = Ref::steal(PyIter_Next(iterator.get()));
    if (!key) break;
    equal = i < PyTuple_GET_SIZE(keys) && same_plain_data(key.get(), PyTuple_GET_ITEM(keys, i));
    ++i;
  }
  if (PyErr_Occurred()) {
    PyErr_Clear();
    return false;
  }
  return equal && i == PyTuple_GET_SIZE(keys);
}

bool length_is(PyObject* obj, uint64_t expected) {
  if (!obj) return false;
  Py_ssize_t size = PyList_Check(obj)     ? PyList_GET_SIZE(obj)
                    : PyTuple_Check(obj)  ? PyTuple_GET_SIZE(obj)
                    : PyDict_Check(obj)   ? PyDict_GET_SIZE(obj)
                    : PyAnySet_Check(obj) ? PySet_GET_SIZE(obj)
                                          : PyObject_Size(obj);
  if (size < 0) PyErr_Clear();
  return size == static_cast<Py_ssize_t>(expected);
}

bool set_gives(PyObject* set, PyObject* expected, uint64_t shape) {
  if (!set || !PyAnySet_Check(set) || PySet_GET_SIZE(set) != PyTuple_GET_SIZE(expected)) return false;
  if (table_shape(set) != shape) return false;
  if (PyAnySet_CheckExact(set)) return table_gives(reinterpret_cast<PySetObject*>(set), expected);
  Ref items = Ref::steal(PySequence_Tuple(set));
  if (!items) PyErr_Clear();
  return items && same_plain_data(items.get(), expected);
}

}  // namespace framejit::runtime
