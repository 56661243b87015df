#include "bytecode/decoder.h"

#include "base/check.h"
#include "bytecode/exception_table.h"
#include "bytecode/line_table.h"
#include "bytecode/opcode_table.h"
#include "bytecode/stack_analysis.h"

namespace framejit::bytecode {
namespace {

constexpr uint32_t kUnitBytes = 2;

void canonical_compare38(Instruction& instr) {
  enum { kIn = 6, kNotIn, kIs, kIsNot, kExceptionMatch };
  const uint32_t raw = instr.raw_arg;
  if (raw == kExceptionMatch) {
    instr.op = SimOp::kExcMatch;
    instr.arg = 0;
  } else if (raw >= kIn) {
    instr.op = raw >= kIs ? SimOp::kIsOp : SimOp::kContainsOp;
    instr.arg = raw == kNotIn || raw == kIsNot;
  }
}

void canonical_intrinsic1(Instruction& instr) {
  switch (static_cast<UnaryIntrinsic>(instr.raw_arg)) {
    case UnaryIntrinsic::kUnaryPositive:
      instr.op = SimOp::kUnaryOp;
      instr.arg = static_cast<int32_t>(UnaryKind::kPositive);
      break;
    case UnaryIntrinsic::kListToTuple:
      instr.op = SimOp::kListToTuple;
      instr.arg = 0;
      break;
    default:
      break;
  }
}

void canonical_bits(Instruction& instr, ArgKind kind, uint8_t row_aux) {
  const uint32_t raw = instr.raw_arg;
  switch (kind) {
    case ArgKind::kNameAndNull:
      instr.arg = static_cast<int32_t>(raw >> 1);
      if (!(raw & 1)) instr.aux = static_cast<uint8_t>(CallLayout::kPlain);
      break;
    case ArgKind::kNameOrMethod:
      instr.arg = static_cast<int32_t>(raw >> 1);
      if (raw & 1) {
        instr.op = SimOp::kLoadMethod;
      } else {
        instr.aux = 0;
      }
      break;
    case ArgKind::kSuperAttr:
      instr.arg = static_cast<int32_t>(raw >> 2);
      instr.aux = raw & (kSuperMethod | kSuperTwoArgs);
      instr.extra = row_aux;
      break;
    case ArgKind::kCompare312:
      instr.arg = static_cast<int32_t>(raw >> 4);
      break;
    case ArgKind::kCompare313:
      instr.arg = static_cast<int32_t>(raw >> 5);
      instr.aux = raw >> 4 & 1;
      break;
    case ArgKind::kBinary: {
      constexpr uint32_t kKinds = static_cast<uint32_t>(BinaryKind::kXor) + 1;
      instr.arg = static_cast<int32_t>(raw % kKinds);
      instr.aux = raw >= kKinds;
      break;
    }
    case ArgKind::kFormat:
      instr.arg = raw & 3;
      instr.aux = raw >> 2 & 1;
      break;
    case ArgKind::kUnpackEx:
      instr.arg = raw & 0xff;
      instr.extra = static_cast<int32_t>(raw >> 8);
      break;
    default:
      break;
  }
}

}  // namespace

Instruction canonical(Version version, uint16_t opcode, uint32_t raw_arg, int32_t local_count) {
  const OpcodeInfo& info = opcode_table(version)[opcode];
  FJ_CHECK(info.kind != ArgKind::kUndefined, "CPython {} has no opcode {}", traits(version).name, opcode);
  Instruction instr;
  instr.op = info.op;
  instr.aux = info.aux;
  instr.opcode = opcode;
  instr.raw_arg = raw_arg;
  instr.arg = static_cast<int32_t>(raw_arg);
  switch (info.kind) {
    case ArgKind::kNone:
      instr.arg = 0;
      break;
    case ArgKind::kFixed:
      instr.arg = info.arg;
      break;
    case ArgKind::kDeref:
      if (!traits(version).shares_cell_slots) instr.arg += local_count;
      break;
    case ArgKind::kLocalPair:
      instr.arg = static_cast<int32_t>(raw_arg >> 4);
      instr.aux = 0;
      break;
    case ArgKind::kJumpAbs:
    case ArgKind::kJumpRel:
    case ArgKind::kJumpBack:
      instr.arg = 0;
      break;
    case ArgKind::kCompare38:
      canonical_compare38(instr);
      break;
    case ArgKind::kCallKw:
      instr.extra = kKeywordsOnStack;
      break;
    case ArgKind::kIntrinsic1:
      canonical_intrinsic1(instr);
      break;
    default:
      canonical_bits(instr, info.kind, info.aux);
  }
  if (instr.op == SimOp::kCall && info.kind != ArgKind::kCallKw) instr.extra = kNoKeywords;
  return instr;
}

class Decoder {
 public:
  Decoder(const RawCode& raw, Decoded& out)
      : raw_(raw), out_(out), table_(opcode_table(raw.version)), traits_(traits(raw.version)) {}

  void run() {
    copy_facts();
    read_instructions();
    resolve_targets();
    attach_positions();
    attach_regions();
    StackAnalysis(out_).run();
  }

 private:
  uint8_t byte(size_t at) const { return static_cast<uint8_t>(raw_.code[at]); }

  void copy_facts() {
    out_.version = raw_.version;
    out_.slots = raw_.slots;
    out_.arg_count = raw_.arg_count;
    out_.posonly_arg_count = raw_.posonly_arg_count;
    out_.kwonly_arg_count = raw_.kwonly_arg_count;
    out_.flags = raw_.flags;
    out_.local_count = raw_.local_count;
    out_.cell_count = raw_.cell_count;
    out_.free_count = raw_.free_count;
    out_.stack_size = raw_.stack_size;
    out_.first_line = raw_.first_line;
  }

  void read_instructions() {
    const size_t size = raw_.code.size();
    FJ_CHECK(size % kUnitBytes == 0, "code has {} bytes", size);
    out_.instructions.reserve(size / kUnitBytes);
    out_.unit_to_index_.reserve(size / kUnitBytes);
    size_t at = 0;
    while (at < size) at = read_instruction(at);
  }

  // Reads one instruction with the prefixes before it and the caches after it; returns where the next one starts.
  size_t read_instruction(const size_t first) {
    size_t at = first;
    uint32_t arg = 0;
    int32_t keywords = kNoKeywords;
    while (true) {
      FJ_CHECK(at + 1 < raw_.code.size(), "code ends inside an instruction");
      const uint8_t opcode = byte(at);
      arg = arg << 8 | byte(at + 1);
      const OpcodeInfo& info = table_[opcode];
      if (info.kind == ArgKind::kKwNames) {
        keywords = static_cast<int32_t>(arg);
        arg = 0;
      } else if (info.kind == ArgKind::kPrecall) {
        arg = 0;
      } else if (info.kind != ArgKind::kExtendedArg) {
        break;
      }
      at += kUnitBytes * (1 + info.caches);
    }
    const uint8_t opcode = byte(at);
    FJ_CHECK(table_[opcode].kind != ArgKind::kCache, "a cache entry is executed at {}", at);
    Instruction instr = canonical(raw_.version, opcode, arg, raw_.local_count);
    instr.offset = static_cast<uint32_t>(at);
    instr.first_offset = static_cast<uint32_t>(first);
    if (instr.op == SimOp::kCall && keywords != kNoKeywords) instr.extra = keywords;
    if (instr.op == SimOp::kLoadFast && is_cell_slot(instr.arg)) instr.op = SimOp::kLoadClosure;
    const auto index = static_cast<uint32_t>(out_.instructions.size());
    out_.instructions.push_back(instr);
    if (table_[opcode].kind == ArgKind::kLocalPair) push_second_half(instr);
    const size_t end = at + kUnitBytes * (1 + table_[opcode].caches);
    out_.unit_to_index_.resize(end / kUnitBytes, index);
    return end;
  }

  void push_second_half(Instruction instr) {
    instr.op = static_cast<SimOp>(table_[instr.opcode].aux);
    instr.arg = static_cast<int32_t>(instr.raw_arg & 15);
    instr.second_half = true;
    if (instr.op == SimOp::kLoadFast && is_cell_slot(instr.arg)) instr.op = SimOp::kLoadClosure;
    out_.instructions.push_back(instr);
  }

  // 3.13 reads cells themselves with LOAD_FAST.
  bool is_cell_slot(int32_t slot) const {
    return traits_.shares_cell_slots && static_cast<size_t>(slot) < raw_.slots.size() &&
           (raw_.slots[slot].is_cell || raw_.slots[slot].is_free);
  }

  void resolve_targets() {
    for (Instruction& instr : out_.instructions) {
      const OpcodeInfo& info = table_[instr.opcode];
      if (!is_jump(info.kind)) continue;
      const uint32_t next = instr.offset + kUnitBytes * (1 + info.caches);
      const uint32_t distance = instr.raw_arg * traits_.jump_unit;
      const uint32_t offset = info.kind == ArgKind::kJumpAbs   ? distance
                              : info.kind == ArgKind::kJumpRel ? next + distance
                                                               : next - distance;
      FJ_CHECK(offset < raw_.code.size(), "jump at {} goes to {}, outside the code", instr.offset, offset);
      uint32_t index = out_.unit_to_index_[offset / kUnitBytes];
      if (instr.op == SimOp::kForIter) index += traits_.end_for_instructions;
      FJ_CHECK(index < out_.size(), "jump at {} goes to the end of the code", instr.offset);
      instr.target = InstrIndex(index);
    }
  }

  void attach_positions() {
    const std::vector<Position> units =
        parse_line_table(traits_.line_format, raw_.line_table, raw_.first_line, raw_.code.size() / kUnitBytes);
    for (uint32_t i = 0; i < out_.size(); ++i) {
      Instruction& instr = out_.instructions[i];
      instr.position = units[instr.offset / kUnitBytes];
      if (instr.op != SimOp::kCall || instr.extra < 0) continue;
      const Position& keywords = units[instr.first_offset / kUnitBytes];
      if (!(keywords == instr.position)) out_.keywords_positions_.push_back({i, keywords});
    }
  }

  void attach_regions() {
    if (traits_.has_blocks) return;
    for (const ExceptionEntry& entry : parse_exception_table(raw_.exception_table)) {
      FJ_CHECK(entry.start < entry.end && entry.end <= out_.unit_to_index_.size() &&
                   entry.handler < out_.unit_to_index_.size(),
               "exception table leaves the code");
      const auto number = static_cast<int32_t>(out_.regions.size());
      ExceptionRegion region;
      region.start = InstrIndex(out_.unit_to_index_[entry.start]);
      region.end = InstrIndex(entry.end < out_.unit_to_index_.size() ? out_.unit_to_index_[entry.end]
                                                                     : static_cast<uint32_t>(out_.size()));
      region.handler = InstrIndex(out_.unit_to_index_[entry.handler]);
      region.depth = entry.depth;
      region.push_lasti = entry.push_lasti;
      for (size_t i = region.start.index(); i < region.end.index(); ++i) out_.instructions[i].region = number;
      out_.regions.push_back(region);
    }
  }

  const RawCode& raw_;
  Decoded& out_;
  const OpcodeTable& table_;
  const VersionTraits& traits_;
};

void decode_bytes(const RawCode& raw, Decoded& out) { Decoder(raw, out).run(); }

}  // namespace framejit::bytecode
