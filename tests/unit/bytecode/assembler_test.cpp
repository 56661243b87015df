#include "bytecode/assembler.h"

#include <gtest/gtest.h>

#include "bytecode/exception_table.h"
#include "tests/unit/bytecode/bytes.h"

namespace framejit::bytecode {
namespace {

uint16_t number(Version version, const char* name) { return static_cast<uint16_t>(find_opcode(version, name)); }

Decoded decode_again(const Decoded& base, const AssembledCode& assembled) {
  RawCode raw;
  raw.version = base.version;
  raw.code = assembled.code;
  raw.exception_table = assembled.exception_table;
  raw.line_table = assembled.line_table;
  raw.local_count = base.local_count;
  raw.slots = base.slots;
  raw.first_line = base.first_line;
  Decoded decoded;
  decode_bytes(raw, decoded);
  return decoded;
}

void copy_range(Assembler& assembler, uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to; ++i) assembler.copy(InstrIndex(i));
}

TEST(AssemblerTest, CopiesCodeUnchanged) {
  const Bytes bytes = Bytes(Version::kPy312)
                          .op("LOAD_FAST", 0)
                          .op("GET_ITER")
                          .op("FOR_ITER", 2)
                          .op("STORE_FAST", 1)
                          .op("JUMP_BACKWARD", 4)
                          .op("END_FOR")
                          .op("RETURN_CONST", 0);
  const Decoded base = bytes.decode();
  Assembler assembler(base);
  copy_range(assembler, 0, static_cast<uint32_t>(base.size()));
  EXPECT_EQ(assembler.finish().code, bytes.text());
}

TEST(AssemblerTest, JumpsGrowUntilAllFit) {
  // if x: <300 instructions>, in the version whose jumps count bytes
  Bytes bytes(Version::kPy38);
  bytes.op("LOAD_FAST", 0).op("POP_JUMP_IF_FALSE", 4).op("LOAD_CONST", 0).op("RETURN_VALUE");
  const Decoded base = bytes.decode();
  Assembler assembler(base);
  copy_range(assembler, 0, 2);
  for (int i = 0; i < 300; ++i) assembler.emit(number(Version::kPy38, "NOP"));
  copy_range(assembler, 2, 4);
  const Decoded again = decode_again(base, assembler.finish());
  EXPECT_EQ(again.size(), 304u);
  EXPECT_EQ(again.instructions[1].target, InstrIndex(302));
  EXPECT_EQ(again.instructions[1].offset, 4u);  // behind an EXTENDED_ARG
}

// The first instruction, and a conditional jump back to what follows it.
void write_loop(Assembler& assembler, Version version, const char* jump) {
  const Label back = assembler.new_label();
  assembler.copy(InstrIndex(0));
  assembler.bind(back);
  assembler.emit(number(version, "LOAD_FAST"), 0);
  assembler.emit_jump(number(version, jump), back);
}

TEST(AssemblerTest, PicksTheFormOfAJumpByItsDirection) {
  const Decoded base = Bytes(Version::kPy311).op("RESUME").op("LOAD_CONST", 0).op("RETURN_VALUE").decode();
  Assembler assembler(base);
  write_loop(assembler, Version::kPy311, "POP_JUMP_FORWARD_IF_TRUE");
  copy_range(assembler, 1, 3);
  const Decoded again = decode_again(base, assembler.finish());
  EXPECT_EQ(again.instructions[2].opcode, number(Version::kPy311, "POP_JUMP_BACKWARD_IF_TRUE"));
  EXPECT_EQ(again.instructions[2].target, InstrIndex(1));
}

TEST(AssemblerTest, WritesBackwardConditionalJumpsRoundAJumpWhereNoneExist) {
  const Decoded base = Bytes(Version::kPy312).op("RESUME").op("RETURN_CONST", 0).decode();
  Assembler assembler(base);
  write_loop(assembler, Version::kPy312, "POP_JUMP_IF_TRUE");
  assembler.copy(InstrIndex(1));
  const Decoded again = decode_again(base, assembler.finish());
  ASSERT_EQ(again.size(), 5u);
  EXPECT_EQ(again.instructions[2].condition(), JumpCondition::kFalse);
  EXPECT_EQ(again.instructions[2].target, InstrIndex(4));
  EXPECT_EQ(again.instructions[3].op, SimOp::kJump);
  EXPECT_EQ(again.instructions[3].target, InstrIndex(1));
}

TEST(AssemblerTest, ASiteBeforeAnInstructionTakesItsJumps) {
  const Decoded base = Bytes(Version::kPy310)
                           .op("LOAD_FAST", 0)
                           .op("POP_JUMP_IF_FALSE", 3)
                           .op("NOP")
                           .op("LOAD_CONST", 0)
                           .op("RETURN_VALUE")
                           .decode();
  Assembler assembler(base);
  copy_range(assembler, 0, 3);
  assembler.bind(assembler.label_of(InstrIndex(3)));
  assembler.emit(number(Version::kPy310, "LOAD_CONST"), 1);
  assembler.emit(number(Version::kPy310, "POP_TOP"));
  copy_range(assembler, 3, 5);
  const Decoded again = decode_again(base, assembler.finish());
  EXPECT_EQ(again.instructions[1].target, InstrIndex(3));
  EXPECT_EQ(again.instructions[3].arg, 1);
}

TEST(AssemblerTest, InsertedCodeRunsInTheRegionOfItsContext) {
  const std::string table = write_exception_table({{1, 3, 4, 0, false}});
  const Decoded base = Bytes(Version::kPy312)
                           .op("RESUME")
                           .op("LOAD_FAST", 0)
                           .op("POP_TOP")
                           .op("RETURN_CONST", 0)
                           .op("PUSH_EXC_INFO")
                           .op("RERAISE", 0)
                           .decode(4, 0, table);
  Assembler assembler(base);
  copy_range(assembler, 0, 2);
  assembler.emit(number(Version::kPy312, "LOAD_CONST"), 300);
  assembler.emit(number(Version::kPy312, "POP_TOP"));
  copy_range(assembler, 2, 3);
  assembler.set_region(kNoRegion);
  assembler.emit(number(Version::kPy312, "NOP"));
  copy_range(assembler, 3, 6);
  const AssembledCode assembled = assembler.finish();
  const std::vector<ExceptionEntry> expected = {{1, 6, 8, 0, false}};
  EXPECT_EQ(parse_exception_table(assembled.exception_table), expected);
  EXPECT_EQ(assembled.stack_size, 2);
}

TEST(AssemblerTest, JoinsInstructionPairsUnlessSomethingCameBetween) {
  const Decoded base = Bytes(Version::kPy313)
                           .op("RESUME")
                           .op("LOAD_FAST_LOAD_FAST", 0x12)
                           .op("BINARY_OP", 0)
                           .op("RETURN_VALUE")
                           .decode();
  Assembler same(base);
  copy_range(same, 0, 5);
  EXPECT_EQ(decode_again(base, same.finish()).instructions[2].second_half, true);
  Assembler split(base);
  copy_range(split, 0, 2);
  split.emit(number(Version::kPy313, "NOP"));
  copy_range(split, 2, 5);
  const Decoded again = decode_again(base, split.finish());
  ASSERT_EQ(again.size(), 6u);
  EXPECT_FALSE(again.instructions[3].second_half);
  EXPECT_EQ(again.instructions[3].arg, 2);
}

TEST(AssemblerTest, RefusesALoopWithoutItsEnd) {
  const Decoded base = Bytes(Version::kPy312).op("LOAD_FAST", 0).op("GET_ITER").op("RETURN_VALUE").decode();
  Assembler assembler(base);
  const Label end = assembler.new_label();
  copy_range(assembler, 0, 2);
  assembler.emit_jump(number(Version::kPy312, "FOR_ITER"), end);
  assembler.bind(end);
  assembler.copy(InstrIndex(2));
  EXPECT_THROW(assembler.finish(), InternalError);
}

}  // namespace
}  // namespace framejit::bytecode
