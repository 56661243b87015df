// Calls by which the program sets state of torch, and what autocast has cast meanwhile.
#pragma once

#include "tracer/simulator.h"

namespace framejit {

// Really calls a setter (CallableKind::kState), to be undone when the capture ends.
SymValue set_state(Simulator& sim, PyObject* setter, CallArgs& args);

// Whether these calls end a region of autocast of the caller's, or empty its cache: with it goes what has been cast,
// though the state may be as before where another region was entered.
bool leaves_region_of_caller(const Simulator& sim);

std::string name_of_setter(PyObject* setter);

}  // namespace framejit
