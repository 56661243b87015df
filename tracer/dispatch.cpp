#include "tracer/ops.h"

namespace framejit {

OpHandler op_handler(bytecode::SimOp op) {
  static constexpr OpHandler kHandlers[] = {
#define SIM_OP(name, pops, pushes) &ops::handle_##name,
#include "bytecode/sim_ops.def"
#undef SIM_OP
  };
  return kHandlers[static_cast<size_t>(op)];
}

}  // namespace framejit
