// On which devices the tensors lie that an operator is given.
#pragma once

#include "graph/infer.h"
#include "graph/op.h"

namespace framejit::graph {

enum class Placement : uint8_t {
  kCpu,      // all on the CPU, or none at all
  kOther,    // all on one other device
  kAllowed,  // on several, as the operator's traits allow
  kMixed,    // on several; what LibTorch makes of that is not known here
};

// LibTorch's rule where an operator has no trait: all on one device. `flags`: of the operator (OpFlag).
Placement placement_of(uint32_t flags, std::span<const Operand> operands, const MetaLookup& metas);

// Whether the operator's rule of inference holds for tensors that lie so: elsewhere the Meta kernel is asked.
bool rule_holds(uint32_t flags, Placement placement, std::span<const Operand> operands, const MetaLookup& metas);

// "cpu and cuda:0": the devices in the order of the operands.
std::string placement_text(std::span<const Operand> operands, const MetaLookup& metas);

}  // namespace framejit::graph
