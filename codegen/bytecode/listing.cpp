// Code for people: one canonical instruction a line, under the user's line numbers.
#include <fmt/format.h>

#include <set>

#include "base/py_ref.h"
#include "bytecode/decoded_code.h"
#include "codegen/twin.h"

namespace framejit::codegen {

using bytecode::DecodedCode;
using bytecode::InstrIndex;
using bytecode::Instruction;
using bytecode::SimOp;

namespace {

std::string text_of(PyObject* str) {
  const char* utf8 = str != nullptr && PyUnicode_Check(str) ? PyUnicode_AsUTF8(str) : nullptr;
  if (utf8 == nullptr) PyErr_Clear();
  return utf8 != nullptr ? utf8 : "?";
}

std::string short_repr(PyObject* object) {
  constexpr size_t kMaxWidth = 60;
  Ref repr = Ref::steal(PyObject_Repr(object));
  std::string text = text_of(repr.get());
  if (text.size() > kMaxWidth) text = text.substr(0, kMaxWidth - 3) + "...";
  return text;
}

class Listing {
 public:
  explicit Listing(const DecodedCode& code) : code_(code) {
    for (const Instruction& instr : code.instructions)
      if (instr.jumps()) labels_.insert(instr.target);
    for (const auto& region : code.regions) labels_.insert(region.handler);
  }

  std::string run() {
    std::string out = fmt::format("code {} ({}, line {})\n", text_of(code_.qualname.get()),
                                  text_of(code_.filename.get()), code_.first_line);
    int32_t line = -1;
    for (size_t n = 0; n < code_.size(); ++n) {
      const Instruction& instr = code_.instructions[n];
      const bool new_line = instr.position.line >= 0 && instr.position.line != line;
      if (new_line) line = instr.position.line;
      out += fmt::format("{:>6} {:>6} {:<18}{}\n", new_line ? fmt::to_string(line) : "", label(InstrIndex(n)),
                         bytecode::sim_op_name(instr.op), operand(instr));
    }
    for (const auto& region : code_.regions)
      out += fmt::format("  {} to {} -> L{} [depth {}{}]\n", region.start.value, region.end.value, region.handler.value,
                         region.depth, region.push_lasti ? ", lasti" : "");
    return out;
  }

 private:
  std::string label(InstrIndex i) const { return labels_.count(i) ? fmt::format("L{}:", i.value) : ""; }

  std::string operand(const Instruction& instr) const {
    if (instr.jumps()) return fmt::format("{}L{}", condition(instr), instr.target.value);
    switch (instr.op) {
      case SimOp::kLoadConst:
      case SimOp::kReturnConst:
        return short_repr(code_.const_at(instr.arg));
      case SimOp::kLoadFast:
      case SimOp::kLoadFastAndClear:
      case SimOp::kStoreFast:
      case SimOp::kDeleteFast:
      case SimOp::kMakeCell:
      case SimOp::kLoadClosure:
      case SimOp::kLoadDeref:
      case SimOp::kStoreDeref:
      case SimOp::kDeleteDeref:
      case SimOp::kLoadClassDeref:
      case SimOp::kLoadFromDictOrDeref:
        return text_of(code_.slot_name(instr.arg));
      case SimOp::kLoadName:
      case SimOp::kStoreName:
      case SimOp::kDeleteName:
      case SimOp::kLoadGlobal:
      case SimOp::kStoreGlobal:
      case SimOp::kDeleteGlobal:
      case SimOp::kLoadFromDictOrGlobals:
      case SimOp::kLoadAttr:
      case SimOp::kLoadMethod:
      case SimOp::kStoreAttr:
      case SimOp::kDeleteAttr:
      case SimOp::kLoadSuperAttr:
      case SimOp::kImportName:
      case SimOp::kImportFrom:
        return text_of(code_.name_at(instr.arg));
      case SimOp::kUnaryOp:
        return pick(instr.arg, {"+", "-", "not", "~"});
      case SimOp::kBinaryOp:
        return pick(instr.arg, {"+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^"}) +
               (instr.aux ? "=" : "");
      case SimOp::kCompareOp:
        return pick(instr.arg, {"<", "<=", "==", "!=", ">", ">="});
      default:
        return instr.arg != 0 ? fmt::to_string(instr.arg) : "";
    }
  }

  static std::string pick(int32_t index, std::initializer_list<const char*> names) {
    return index >= 0 && static_cast<size_t>(index) < names.size() ? names.begin()[index] : "?";
  }

  static std::string condition(const Instruction& instr) {
    if (instr.op != SimOp::kPopJumpIf && instr.op != SimOp::kJumpIfOrPop) return "";
    return pick(instr.aux, {"false ", "true ", "none ", "not none "});
  }

  const DecodedCode& code_;
  std::set<InstrIndex> labels_;
};

}  // namespace

std::string list_code(BorrowedRef code) { return Listing(*bytecode::decode(code)).run(); }

}  // namespace framejit::codegen
