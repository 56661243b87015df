// Declares the handler of each SimOp: handle_<Name>, defined in the file of its family.
#pragma once

#include "tracer/simulator.h"

namespace framejit::ops {

#define SIM_OP(name, pops, pushes) void handle_##name(Simulator& sim, SimFrame& frame, const Instruction& instr);
#include "bytecode/sim_ops.def"
#undef SIM_OP

}  // namespace framejit::ops
