// A decoded instruction: CPython's own encoding beside the canonical operation that the simulator reads.
#pragma once

#include <cstdint>

#include "base/ids.h"

namespace framejit::bytecode {

struct InstrTag {};
using InstrIndex = Id<InstrTag>;  // index into DecodedCode::instructions

enum class SimOp : uint8_t {
#define SIM_OP(name, pops, pushes) k##name,
#include "bytecode/sim_ops.def"
#undef SIM_OP
};
inline constexpr int kSimOpCount = 0
#define SIM_OP(name, pops, pushes) +1
#include "bytecode/sim_ops.def"
#undef SIM_OP
    ;
const char* sim_op_name(SimOp op);

// Where the NULL of a call goes. kNullBelow: [NULL, f, args] or the method form [method, self, args].
// kNullAbove: [f, NULL, args] or [method, self, args].
enum class CallLayout : uint8_t { kPlain, kNullBelow, kNullAbove };
inline constexpr int32_t kNoKeywords = -1;
inline constexpr int32_t kKeywordsOnStack = -2;

enum class JumpCondition : uint8_t { kFalse, kTrue, kNone, kNotNone };
enum class UnaryKind : uint8_t { kPositive, kNegative, kNot, kInvert };
// In the order of CPython's NB_ constants.
enum class BinaryKind : uint8_t {
  kAdd,
  kAnd,
  kFloorDivide,
  kLshift,
  kMatrixMultiply,
  kMultiply,
  kRemainder,
  kOr,
  kPower,
  kRshift,
  kSubtract,
  kTrueDivide,
  kXor,
};
// In the order of CPython's Py_LT .. Py_GE.
enum class CompareKind : uint8_t { kLess, kLessEqual, kEqual, kNotEqual, kGreater, kGreaterEqual };
// CPython 3.12's numbers, whatever the version at hand calls them.
enum class UnaryIntrinsic : uint8_t {
  kInvalid,
  kPrint,
  kImportStar,
  kStopIterationError,
  kAsyncGenWrap,
  kUnaryPositive,  // decoded as UnaryOp
  kListToTuple,    // decoded as ListToTuple
  kTypeVar,
  kParamSpec,
  kTypeVarTuple,
  kSubscriptGeneric,
  kTypeAlias,
};
enum class BinaryIntrinsic : uint8_t {
  kInvalid,
  kPrepReraiseStar,
  kTypeVarWithBound,
  kTypeVarWithConstraints,
  kSetFunctionTypeParams,
  kSetTypeParamDefault,
};
enum FunctionParts : uint8_t { kDefaults = 1, kKwDefaults = 2, kAnnotations = 4, kClosure = 8 };
enum SuperBits : uint8_t { kSuperMethod = 1, kSuperTwoArgs = 2 };

// Source position as in co_positions; -1: none. Before 3.11 only `line` is set.
struct Position {
  int32_t line = -1;
  int32_t end_line = -1;
  int32_t column = -1;
  int32_t end_column = -1;
  friend bool operator==(const Position& a, const Position& b) {
    return a.line == b.line && a.end_line == b.end_line && a.column == b.column && a.end_column == b.end_column;
  }
};

struct Instruction {
  SimOp op = SimOp::kNop;
  uint8_t aux = 0;
  uint16_t opcode = 0;        // CPython's own, specialisation and instrumentation undone
  int32_t arg = 0;            // canonical, see sim_ops.def
  int32_t extra = 0;          // canonical, see sim_ops.def
  uint32_t raw_arg = 0;       // CPython's own, EXTENDED_ARG folded in
  bool second_half = false;   // 3.13: shares its code unit with the instruction before it
  InstrIndex target;          // jumps and SetupFinally / SetupWith: where to
  int32_t region = -1;        // index into DecodedCode::regions, 3.11+
  uint32_t offset = 0;        // bytes, of the instruction itself (of CALL where KW_NAMES and PRECALL are folded in)
  uint32_t first_offset = 0;  // bytes, of its first code unit: EXTENDED_ARG, KW_NAMES, PRECALL
  Position position;

  CallLayout layout() const { return static_cast<CallLayout>(aux); }
  JumpCondition condition() const { return static_cast<JumpCondition>(aux); }
  bool jumps() const { return target.valid(); }
};

struct StackEffect {
  int pops = 0;
  int pushes = 0;
  int delta() const { return pushes - pops; }
};
// What the instruction does to the operand stack; `jump`: when its jump is taken. Not defined for the operations of
// 3.8's finally bodies, whose effect depends on how the body was entered.
StackEffect stack_effect(const Instruction& instr, bool jump);

// Control never goes on to the next instruction.
bool ends_block(SimOp op);

}  // namespace framejit::bytecode
