// What a graph cannot hold, and the trace cannot follow, it can still hand on.
#include "tracer/proxies.h"
#include "tracer/signals.h"
#include "tracer/world.h"

namespace framejit {

SymValue World::set_aside(PyObject* real, graph::SourceId source, TraceStop why) {
  Ref stand_in = make_stand_in();
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
