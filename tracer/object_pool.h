// The Python objects that a Capture names by ConstId. The runtime owns one pool per code object; entries share it.
#pragma once

#include <unordered_map>
#include <vector>

#include "base/py_ref.h"
#include "graph/source.h"

namespace framejit {

class ObjectPool {
 public:
  // The same object always gets the same id; equal but distinct objects get two.
  graph::ConstId add(PyObject* obj) {
    auto [it, fresh] = ids_.try_emplace(obj, graph::ConstId(objects_.size()));
    if (fresh) objects_.push_back(Ref::borrow(obj));
    return it->second;
  }
  PyObject* at(graph::ConstId id) const { return objects_[id.index()].get(); }
  size_t size() const { return objects_.size(); }
  bool holds(PyObject* obj) const { return ids_.contains(obj); }
  const std::vector<Ref>& objects() const { return objects_; }

 private:
  std::vector<Ref> objects_;
  std::unordered_map<PyObject*, graph::ConstId> ids_;
};

}  // namespace framejit
