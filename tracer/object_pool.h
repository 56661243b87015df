// The Python objects that a Capture names by ConstId. The runtime owns one pool per code object; entries share it.
#pragma once

#include <vector>

#include "base/py_ref.h"
#include "base/row_index.h"
#include "graph/source.h"

namespace framejit {

class ObjectPool {
 public:
  // The same object always gets the same id; equal but distinct objects get two.
  graph::ConstId add(PyObject* obj) {
    const auto [row, fresh] = index_.add(hash_of(obj), [&](uint32_t at) { return objects_[at].get() == obj; });
    if (fresh) objects_.push_back(Ref::borrow(obj));
    return graph::ConstId(row);
  }
  PyObject* at(graph::ConstId id) const { return objects_[id.index()].get(); }
  size_t size() const { return objects_.size(); }
  bool holds(PyObject* obj) const {
    return index_.contains(hash_of(obj), [&](uint32_t at) { return objects_[at].get() == obj; });
  }
  const std::vector<Ref>& objects() const { return objects_; }

 private:
  // Fibonacci hashing: the high bits of the product depend on all bits of the address.
  static uint64_t hash_of(PyObject* obj) { return reinterpret_cast<uintptr_t>(obj) * 0x9e3779b97f4a7c15u >> 32; }

  std::vector<Ref> objects_;
  RowIndex index_;
};

}  // namespace framejit
