#include <array>

#include "base/check.h"
#include "bytecode/instruction.h"

namespace framejit::bytecode {
namespace {

constexpr int8_t V = -1;

struct Row {
  const char* name;
  int8_t pops;
  int8_t pushes;
};
constexpr std::array<Row, kSimOpCount> kRows = {{
#define SIM_OP(name, pops, pushes) {#name, pops, pushes},
#include "bytecode/sim_ops.def"
#undef SIM_OP
}};

int set_bits(int bits) { return __builtin_popcount(static_cast<unsigned>(bits)); }

StackEffect call_effect(const Instruction& instr) {
  const int null_slot = instr.layout() == CallLayout::kPlain ? 0 : 1;
  const int keywords = instr.extra == kKeywordsOnStack ? 1 : 0;
  return {1 + null_slot + instr.arg + keywords, 1};
}

StackEffect display_effect(const Instruction& instr) {
  switch (instr.op) {
    case SimOp::kBuildMap:
      return {2 * instr.arg, 1};
    case SimOp::kBuildConstKeyMap:
      return {instr.arg + 1, 1};
    case SimOp::kFormatValue:
      return {1 + instr.aux, 1};
    default:
      return {instr.arg, 1};
  }
}

// Operations whose row says V.
StackEffect variable_effect(const Instruction& instr, bool jump) {
  const int arg = instr.arg;
  switch (instr.op) {
    case SimOp::kCopy:
      return {arg, arg + 1};
    case SimOp::kSwap:
    case SimOp::kRot:
      return {arg, arg};
    case SimOp::kLoadGlobal:
      return {0, instr.layout() == CallLayout::kPlain ? 1 : 2};
    case SimOp::kLoadSuperAttr:
      return {3, instr.aux & kSuperMethod ? 2 : 1};
    case SimOp::kUnpackSequence:
      return {1, arg};
    case SimOp::kUnpackEx:
      return {1, arg + 1 + instr.extra};
    case SimOp::kCall:
      return call_effect(instr);
    case SimOp::kCallEx:
      return {2 + (instr.layout() == CallLayout::kPlain ? 0 : 1) + (arg & 1), 1};
    case SimOp::kMakeFunction:
      return {1 + instr.aux + set_bits(arg), 1};
    case SimOp::kJumpIfOrPop:
      return jump ? StackEffect{0, 0} : StackEffect{1, 0};
    case SimOp::kForIter:
      return jump ? StackEffect{1, 0} : StackEffect{0, 1};
    case SimOp::kEndFor:
    case SimOp::kRaise:
      return {arg, 0};
    case SimOp::kEndAsyncFor:
    case SimOp::kPopExcept:
    case SimOp::kReraise:
      return {instr.aux, 0};
    case SimOp::kMatchKeys:
      return {2, 3 + instr.aux};
    case SimOp::kMatchClass:
      return {3, 1 + instr.aux};
    default:
      return display_effect(instr);
  }
}

}  // namespace

const char* sim_op_name(SimOp op) { return kRows[static_cast<size_t>(op)].name; }

StackEffect stack_effect(const Instruction& instr, bool jump) {
  const Row& row = kRows[static_cast<size_t>(instr.op)];
  if (row.pops == V || row.pushes == V) return variable_effect(instr, jump);
  // 3.11's SEND leaves only the result when it jumps.
  if (instr.op == SimOp::kSend && jump && instr.aux) return {2, 1};
  return {row.pops, row.pushes};
}

bool ends_block(SimOp op) {
  switch (op) {
    case SimOp::kJump:
    case SimOp::kReturnValue:
    case SimOp::kReturnConst:
    case SimOp::kRaise:
    case SimOp::kReraise:
      return true;
    default:
      return false;
  }
}

}  // namespace framejit::bytecode
