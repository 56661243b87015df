// What stands in the trace for what it cannot follow: World::set_aside.
#pragma once

#include "base/py_ref.h"

namespace framejit {

class Simulator;

// C code that looks at it ends the capture. It dies with the simulator.
Ref make_stand_in(Simulator& sim);

}  // namespace framejit
