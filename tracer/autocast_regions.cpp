#include "tracer/autocast_regions.h"

#include <algorithm>

namespace framejit {

std::string name_of_setter(PyObject* setter) {
  Ref name = Ref::steal(PyObject_GetAttrString(setter, "__name__"));
  return PyUnicode_AsUTF8(name.get());
}

SymValue set_state(Simulator& sim, PyObject* setter, CallArgs& args) {
  TensorHost& host = sim.services().host;
  const std::string name = name_of_setter(setter);
  const bool kept = name == "clear_autocast_cache" && host.keeps_casts();
  SymValue result = kept ? SymValue::borrow(Py_None) : sim.call_real(setter, args);
  if (!kept && host.finds_old_casts())
    sim.stop(StopReason::kGlobalMutation, name + " behind a region of autocast that the caller entered");
  return result;
}

bool leaves_region_of_caller(const Simulator& sim) {
  int nesting = 0, least = 0;
  bool empties = false;
  for (const auto& [setter, args] : sim.state_calls()) {
    const std::string name = name_of_setter(setter.get());
    nesting += name == "autocast_increment_nesting" ? 1 : name == "autocast_decrement_nesting" ? -1 : 0;
    least = std::min(least, nesting);
    empties = empties || name == "clear_autocast_cache";
  }
  return least < 0 || (empties && sim.services().host.keeps_casts());
}

}  // namespace framejit
