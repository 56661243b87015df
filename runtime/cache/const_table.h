// The objects that a compiled segment names by ConstId. Most are held; an object that is only compared by identity is
// not: its death ends the segment's life instead (CompiledEntry), so a cache never keeps a model or a tensor alive.
#pragma once

#include <algorithm>
#include <vector>

#include "base/py_ref.h"
#include "tracer/object_pool.h"

namespace framejit::runtime {

class ConstTable {
 public:
  explicit ConstTable(const ObjectPool& pool) : held_(pool.objects()) {
    for (const Ref& object : held_) objects_.push_back(object.get());
  }
  PyObject* at(graph::ConstId id) const { return objects_[id.index()]; }
  size_t size() const { return objects_.size(); }
  // An object that serves in its place.
  void replace(graph::ConstId id, Ref object) {
    objects_[id.index()] = object.get();
    held_[id.index()] = std::move(object);
  }
  // From here on the object is only an address.
  void let_go(graph::ConstId id) { held_[id.index()] = nullptr; }
  const std::vector<Ref>& held() const { return held_; }
  bool holds(const PyObject* obj) const {
    return std::any_of(held_.begin(), held_.end(), [&](const Ref& held) { return held.get() == obj; });
  }

 private:
  std::vector<Ref> held_;
  std::vector<PyObject*> objects_;
};

}  // namespace framejit::runtime
