#include "bytecode/listing.h"

#include "base/check.h"
#include "bytecode/opcode_table.h"

namespace framejit::bytecode {
namespace {

std::string text_of(const Ref& str) {
  const char* text = str ? PyUnicode_AsUTF8(str.get()) : nullptr;
  if (text) return text;
  PyErr_Clear();  // an object whose repr fails, or a name with lone surrogates
  return "?";
}

std::string repr(BorrowedRef object) { return text_of(Ref::steal(PyObject_Repr(object.get()))); }

std::string name_text(const DecodedCode& code, int32_t index) {
  return text_of(Ref::borrow(code.name_at(index).get()));
}

std::string slot_text(const DecodedCode& code, int32_t slot) {
  return text_of(Ref::borrow(code.slot_name(slot).get()));
}

const char* layout_text(CallLayout layout) {
  return layout == CallLayout::kPlain ? "" : layout == CallLayout::kNullBelow ? " null below" : " null above";
}

std::string call_text(const DecodedCode& code, const Instruction& instr) {
  std::string text = fmt::format("{}", instr.arg);
  if (instr.extra == kKeywordsOnStack) text += " keywords on stack";
  if (instr.extra >= 0) text += " keywords " + repr(code.const_at(instr.extra));
  return text + layout_text(instr.layout());
}

std::string operands(const DecodedCode& code, const Instruction& instr) {
  static constexpr const char* kBinary[] = {"+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^"};
  static constexpr const char* kCompare[] = {"<", "<=", "==", "!=", ">", ">="};
  static constexpr const char* kUnary[] = {"+", "-", "not", "~"};
  static constexpr const char* kCondition[] = {"false", "true", "None", "not None"};
  switch (instr.op) {
    case SimOp::kBinaryOp:
      return fmt::format("{}{}", kBinary[instr.arg], instr.aux ? "=" : "");
    case SimOp::kCompareOp:
      return fmt::format("{}{}", kCompare[instr.arg], instr.aux ? " bool" : "");
    case SimOp::kUnaryOp:
      return kUnary[instr.arg];
    case SimOp::kPopJumpIf:
    case SimOp::kJumpIfOrPop:
      return fmt::format("{} -> {}", kCondition[instr.aux], instr.target.value);
    case SimOp::kCall:
      return call_text(code, instr);
    case SimOp::kUnpackEx:
      return fmt::format("{} {}", instr.arg, instr.extra);
    case SimOp::kLoadGlobal:
    case SimOp::kLoadMethod:
      return name_text(code, instr.arg) + layout_text(instr.layout());
    default:
      break;
  }
  if (instr.jumps()) return fmt::format("-> {}", instr.target.value);
  switch (opcode_table(code.version)[instr.opcode].kind) {
    case ArgKind::kConst:
      return repr(code.const_at(instr.arg));
    case ArgKind::kName:
    case ArgKind::kNameOrMethod:
    case ArgKind::kSuperAttr:
      return name_text(code, instr.arg);
    case ArgKind::kLocal:
    case ArgKind::kLocalPair:
    case ArgKind::kDeref:
      return slot_text(code, instr.arg);
    case ArgKind::kNone:
      return "";
    default:
      return fmt::format("{}", instr.arg);
  }
}

}  // namespace

std::string listing(const DecodedCode& code) {
  std::vector<bool> is_target(code.size());
  for (const Instruction& instr : code.instructions) {
    if (instr.jumps()) is_target[instr.target.index()] = true;
  }
  for (const ExceptionRegion& region : code.regions) is_target[region.handler.index()] = true;

  std::string text;
  int line = -1;
  for (size_t i = 0; i < code.size(); ++i) {
    const Instruction& instr = code.instructions[i];
    const bool new_line = instr.position.line != line && instr.position.line >= 0;
    if (new_line) line = instr.position.line;
    const std::string canonical = fmt::format("{} {}", sim_op_name(instr.op), operands(code, instr));
    text += fmt::format("{:>5} {} {:>4}  {:<36} {:<28} depth {}", new_line ? fmt::format("{}", line) : "",
                        is_target[i] ? ">>" : "  ", i, canonical,
                        fmt::format("{} {}", opcode_table(code.version)[instr.opcode].name, instr.raw_arg),
                        code.stack_depth(InstrIndex(i)));
    if (instr.region >= 0) {
      const ExceptionRegion& region = code.regions[instr.region];
      text +=
          fmt::format("  handler {} depth {}{}", region.handler.value, region.depth, region.push_lasti ? " lasti" : "");
    }
    text += '\n';
  }
  return text;
}

}  // namespace framejit::bytecode
