// CPython's opcodes of every supported version, from opcodes/py*.def.
//   OP(NAME, number, caches, ArgKind, SimOp, fixed arg, aux)
#pragma once

#include <array>
#include <string_view>

#include "bytecode/versions.h"

namespace framejit::bytecode {

// How CPython's argument becomes the canonical arg, aux and extra. Unless said otherwise arg is CPython's argument and
// aux the row's.
enum class ArgKind : uint8_t {
  kUndefined,  // no such opcode
  kNone,       // arg is 0
  kFixed,      // arg is the row's
  kRaw,
  kConst,
  kName,
  kLocal,
  kDeref,      // counted from the first cell up to 3.10, a slot of localsplus after
  kLocalPair,  // two instructions in one: slots in the high and low four bits, aux names the second operation
  kJumpAbs,    // the argument gives a target; so the next two
  kJumpRel,
  kJumpBack,
  kCompare38,   // 3.8 packs `in`, `is` and exception matches into COMPARE_OP
  kCompare312,  // the low four bits are for specialisation
  kCompare313,  // so are the low five, but 16 asks for bool()
  kBinary,      // from 13 on: in place
  kFormat,
  kUnpackEx,      // extra: targets after the star
  kCallKw,        // the tuple of keyword names is on the stack
  kNameAndNull,   // bit 0: push a NULL where aux says
  kNameOrMethod,  // bit 0: it is a LoadMethod, laid out as aux says
  kSuperAttr,
  kIntrinsic1,
  kIntrinsic2,
  kExtendedArg,  // prefixes, folded into the instruction that follows
  kKwNames,
  kPrecall,
  kCache,
};

struct OpcodeInfo {
  const char* name = nullptr;
  SimOp op = SimOp::kNop;
  ArgKind kind = ArgKind::kUndefined;
  uint8_t caches = 0;
  uint8_t aux = 0;
  int16_t arg = 0;
};
using OpcodeTable = std::array<OpcodeInfo, 256>;

const OpcodeTable& opcode_table(Version version);

// The number of CPython's opcode `name`, or -1.
int find_opcode(Version version, std::string_view name);

inline bool is_jump(ArgKind kind) {
  return kind == ArgKind::kJumpAbs || kind == ArgKind::kJumpRel || kind == ArgKind::kJumpBack;
}

}  // namespace framejit::bytecode
