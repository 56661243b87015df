#include "runtime/cache/guard_objects.h"

#include "tracer/plain_data.h"

namespace framejit::runtime {
namespace {

using graph::ConstId;
using graph::GuardKind;

// Longer ones stay, so that a call with the same object compares no more than its address.
constexpr Py_ssize_t kLongestCopy = 256;

Ref copy_of_tuple(PyObject* tuple);

// Null: the object itself stays. One that is interned, or that the interpreter keeps one of, belongs to nobody.
Ref equal_copy(PyObject* obj) {
  if (PyTuple_CheckExact(obj)) return copy_of_tuple(obj);
  if (PyBytes_CheckExact(obj)) {
    const Py_ssize_t size = PyBytes_GET_SIZE(obj);
    if (size < 2 || size > kLongestCopy) return nullptr;
    return Ref::steal(PyBytes_FromStringAndSize(PyBytes_AS_STRING(obj), size));
  }
  if (!PyUnicode_CheckExact(obj) || PyUnicode_CHECK_INTERNED(obj)) return nullptr;
  const Py_ssize_t size = PyUnicode_GET_LENGTH(obj);
  if (size < 2 || size > kLongestCopy) return nullptr;
  Ref copy = Ref::steal(PyUnicode_New(size, PyUnicode_MAX_CHAR_VALUE(obj)));
  if (copy && PyUnicode_CopyCharacters(copy.get(), 0, obj, 0, size) < 0) return nullptr;
  return copy;
}

Ref copy_of_tuple(PyObject* tuple) {
  const Py_ssize_t size = PyTuple_GET_SIZE(tuple);
  if (size == 0 || size > kLongestCopy) return nullptr;
  Ref copy = Ref::steal(PyTuple_New(size));
  for (Py_ssize_t i = 0; copy && i < size; ++i) {
    Ref item = equal_copy(PyTuple_GET_ITEM(tuple, i));
    PyTuple_SET_ITEM(copy.get(), i, (item ? std::move(item) : Ref::borrow(PyTuple_GET_ITEM(tuple, i))).release());
  }
  return copy;
}

// Null: the tuple itself stays.
Ref with_weak_items(PyObject* tuple) {
  const Py_ssize_t size = PyTuple_GET_SIZE(tuple);
  Py_ssize_t watched = 0;
  for (Py_ssize_t i = 0; i < size; ++i) watched += worth_watching(PyTuple_GET_ITEM(tuple, i));
  if (watched == 0) return nullptr;
  Ref weak = Ref::steal(PyTuple_New(size));
  for (Py_ssize_t i = 0; weak && i < size; ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    Ref held = worth_watching(item) ? Ref::steal(PyWeakref_NewRef(item, nullptr)) : Ref::borrow(item);
    if (!held) return nullptr;
    PyTuple_SET_ITEM(weak.get(), i, held.release());
  }
  return weak;
}

bool compares_items(GuardKind kind) { return kind == GuardKind::kDictKeys || kind == GuardKind::kSetGives; }

// By ConstId: named by something else than guards of these kinds.
template <class OfThese>
std::vector<bool> otherwise_used(const graph::Capture& capture, size_t count, OfThese of_these) {
  std::vector<bool> used(count, false);
  auto use = [&](ConstId id) {
    if (id.valid()) used[id.index()] = true;
  };
  for (const graph::Guard& guard : capture.guards.rows())
    if (!of_these(guard.kind)) use(guard.object);
  for (size_t i = 0; i < capture.sources.size(); ++i) use(capture.sources.at(graph::SourceId(i)).object);
  for (size_t i = 0; i < capture.recipes.size(); ++i) use(capture.recipes.at(graph::RecipeId(i)).object);
  return used;
}

}  // namespace

ConstTable objects_of(const graph::Capture& capture, const ObjectPool& pool) {
  ConstTable objects(pool);
  const std::vector<bool> used = otherwise_used(
      capture, objects.size(), [](GuardKind kind) { return kind == GuardKind::kEquals || compares_items(kind); });
  for (const graph::Guard& guard : capture.guards.rows()) {
    if (!guard.object.valid() || used[guard.object.index()]) continue;
    PyObject* obj = pool.at(guard.object);
    Ref other = guard.kind == GuardKind::kEquals ? equal_copy(obj)
                : compares_items(guard.kind)     ? with_weak_items(obj)
                                                 : nullptr;
    if (other) objects.replace(guard.object, std::move(other));
    PyErr_Clear();  // out of memory: the object stays
  }
  return objects;
}

std::vector<PyObject*> weak_items(const graph::Capture& capture, const ConstTable& objects) {
  std::vector<PyObject*> found;
  for (const graph::Guard& guard : capture.guards.rows()) {
    if (!compares_items(guard.kind)) continue;
    PyObject* items = objects.at(guard.object);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items); ++i) {
      PyObject* item = PyTuple_GET_ITEM(items, i);
      if (PyWeakref_CheckRefExact(item)) found.push_back(reinterpret_cast<PyWeakReference*>(item)->wr_object);
    }
  }
  return found;
}

}  // namespace framejit::runtime
