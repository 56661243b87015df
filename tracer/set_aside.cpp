// What a graph cannot hold, and the trace cannot follow, it can still hand on.
#include "base/check.h"
#include "base/once.h"
#include "tracer/signals.h"
#include "tracer/world.h"

namespace framejit {

namespace {

// Of a type of its own, so that nothing takes it for what it stands for.
PyTypeObject* stand_in_type() {
  static PyTypeObject type = [] {
    PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
    t.tp_name = "framejit.set_aside";
    t.tp_basicsize = sizeof(PyObject);
    t.tp_flags = Py_TPFLAGS_DEFAULT;
    return t;
  }();
  const bool ready = once_under_lock([] { return PyType_Ready(&type) == 0; });
  FJ_CHECK(ready, "cannot make the type of what is set aside");
  return &type;
}

}  // namespace

SymValue World::set_aside(PyObject* real, graph::SourceId source, TraceStop why) {
  Ref stand_in = Ref::steal(_PyObject_New(stand_in_type()));
  FJ_CHECK(static_cast<bool>(stand_in), "out of memory");
  guard(graph::GuardKind::kTypeIs, source, reinterpret_cast<PyObject*>(Py_TYPE(real)));
  aside_[stand_in.get()] = {real, source, std::move(why)};
  kept_.push_back(stand_in);
  return SymValue(std::move(stand_in), source);
}

void World::require_followed(PyObject* obj) const {
  if (is_aside(obj)) throw StopTrace{aside_.at(obj).why, {}};
}

SymValue World::wrap_local(PyObject* real, graph::SourceId source) {
  try {
    return wrap(real, source);
  } catch (StopTrace& stopped) {
    // A container may have been read in part.
    if (frozen_ || !host_.is_tensor(real)) throw;
    return set_aside(real, source, std::move(stopped.stop));
  }
}

}  // namespace framejit
