// What ends with a frame: objects to which nothing refers but its variables and others that end with it.
#pragma once

#include <Python.h>

#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace framejit {

class Simulator;

class OwnedObjects {
 public:
  // `held`: what the frame holds, and how often. To be made before a trace refers to any of it.
  OwnedObjects(const Simulator& sim, const std::unordered_map<PyObject*, Py_ssize_t>& held);

  bool contains(PyObject* obj) const { return owned_.count(obj) != 0; }
  // Of an object that the frame holds, and that ends with it: whether the end of something behind it can be seen, which
  // the frame does not hold itself. Also true where there is more than can be looked through.
  bool have_end_behind(PyObject* obj) const { return incomplete_ || leads_to(obj, ends_); }
  // Its parts that have such an end, or something behind them has. Nothing where there is more than can be looked
  // through.
  std::vector<PyObject*> parts_with_end(PyObject* obj) const;
  // Whether it, or something behind it, may refer to objects of which the collector is not told.
  bool hide(PyObject* obj) const { return hiding_.count(obj) != 0 || leads_to(obj, hiding_); }

 private:
  using Objects = std::unordered_set<PyObject*>;

  void own(PyObject* obj);
  void count_reference(PyObject* part);
  bool leads_to(PyObject* obj, const Objects& wanted) const;
  template <class F>
  static void each_part(PyObject* obj, F&& see);

  const Simulator& sim_;
  std::unordered_map<PyObject*, Py_ssize_t> others_;  // references that nothing is known of so far
  Objects owned_, ends_, hiding_;
  std::vector<PyObject*> pending_;
  bool incomplete_ = false;
};

}  // namespace framejit
