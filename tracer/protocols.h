// Protocols that are checked at run time (PEP 544): an object passes that has the members, whatever its class is.
#pragma once

#include "tracer/simulator.h"

namespace framejit {

bool is_runtime_protocol(PyObject* type);
bool is_instance_of_protocol(Simulator& sim, SymValue subject, PyObject* type);

}  // namespace framejit
