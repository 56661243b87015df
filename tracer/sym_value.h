// SymValue: a simulated value. It is a real Python object plus, while nothing has relied on it yet, where it came from.
// Of a number of the graph the object tells the type alone (World::is_number).
#pragma once

#include "base/py_ref.h"
#include "graph/source.h"

namespace framejit {

struct SymValue {
  Ref obj;               // null: an unbound local, a NULL stack slot
  graph::SourceId lazy;  // valid: read from outside and not guarded yet; Simulator::realise installs the guard

  SymValue() = default;
  SymValue(Ref o) : obj(std::move(o)) {}
  SymValue(Ref o, graph::SourceId source) : obj(std::move(o)), lazy(source) {}
  static SymValue borrow(PyObject* o) { return SymValue(Ref::borrow(o)); }
  static SymValue of_bool(bool value) { return borrow(value ? Py_True : Py_False); }

  PyObject* get() const { return obj.get(); }
  bool null() const { return !obj; }
};

}  // namespace framejit
