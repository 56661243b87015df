// Declares the handler of each SimOp: handle_<Name>, defined in the file of its family.
#pragma once

#include "tracer/simulator.h"

namespace framejit::ops {

#define SIM_OP(name, pops, pushes) void handle_##name(Simulator& sim, SimFrame& frame, const Instruction& instr);
#include "bytecode/sim_ops.def"
#undef SIM_OP

// The interpreter words anew what a mapping behind two stars raises, by its version: it does so itself.
template <class Run>
auto with_mapping_errors(Simulator& sim, Run&& run) {
  try {
    return run();
  } catch (const PythonRaised&) {
    if (!PyErr_ExceptionMatches(PyExc_KeyError) && !PyErr_ExceptionMatches(PyExc_AttributeError)) throw;
    PyErr_Clear();
  }
  sim.stop(StopReason::kUnsupportedValue, "two stars before a mapping that raises");
}

}  // namespace framejit::ops
