#include <gtest/gtest.h>

#include "bytecode/exception_table.h"
#include "tests/unit/bytecode/bytes.h"

namespace framejit::bytecode {
namespace {

using Nulls = std::vector<int32_t>;

TEST(DecoderTest, FoldsExtendedArgIntoNextInstruction) {
  const Decoded code =
      Bytes(Version::kPy38).op("EXTENDED_ARG", 1).op("EXTENDED_ARG", 2).op("LOAD_CONST", 3).op("RETURN_VALUE").decode();
  ASSERT_EQ(code.size(), 2u);
  EXPECT_EQ(code.instructions[0].op, SimOp::kLoadConst);
  EXPECT_EQ(code.instructions[0].arg, 0x10203);
  EXPECT_EQ(code.instructions[0].offset, 4u);
  EXPECT_EQ(code.instructions[0].first_offset, 0u);
  EXPECT_EQ(code.index_at_offset(2), InstrIndex(0));
}

TEST(DecoderTest, FoldsKeywordNamesPrecallAndCachesIntoCall) {
  const Decoded code = Bytes(Version::kPy311)
                           .op("RESUME")
                           .op("LOAD_GLOBAL", 1)
                           .op("LOAD_FAST", 0)
                           .op("KW_NAMES", 2)
                           .op("PRECALL", 1)
                           .op("CALL", 1)
                           .op("RETURN_VALUE")
                           .decode();
  ASSERT_EQ(code.size(), 5u);
  const Instruction& call = code.instructions[3];
  EXPECT_EQ(call.op, SimOp::kCall);
  EXPECT_EQ(call.arg, 1);
  EXPECT_EQ(call.extra, 2);
  EXPECT_EQ(call.layout(), CallLayout::kNullBelow);
  EXPECT_EQ(code.stack_depth(InstrIndex(3)), 3);
  EXPECT_EQ(code.null_slots(InstrIndex(3)), Nulls{0});
  EXPECT_EQ(code.stack_depth(InstrIndex(4)), 1);
}

TEST(DecoderTest, PutsTheNullOfACallAboveTheCallableIn313) {
  const Decoded code =
      Bytes(Version::kPy313).op("RESUME").op("LOAD_GLOBAL", 1).op("CALL", 0).op("RETURN_VALUE").decode();
  EXPECT_EQ(code.instructions[1].layout(), CallLayout::kNullAbove);
  EXPECT_EQ(code.null_slots(InstrIndex(2)), Nulls{1});
}

TEST(DecoderTest, SplitsInstructionPairsOf313) {
  const Decoded code = Bytes(Version::kPy313)
                           .op("RESUME")
                           .op("LOAD_FAST_LOAD_FAST", 0x12)
                           .op("BINARY_OP", 13)
                           .op("RETURN_VALUE")
                           .decode();
  ASSERT_EQ(code.size(), 5u);
  EXPECT_EQ(code.instructions[1].arg, 1);
  EXPECT_EQ(code.instructions[2].arg, 2);
  EXPECT_TRUE(code.instructions[2].second_half);
  EXPECT_EQ(code.instructions[3].arg, static_cast<int>(BinaryKind::kAdd));
  EXPECT_EQ(code.instructions[3].aux, 1);
}

TEST(DecoderTest, GivesComparisonsOfAllVersionsOneForm) {
  for (auto [arg, op, negated] : {std::tuple{6, SimOp::kContainsOp, 0}, std::tuple{9, SimOp::kIsOp, 1},
                                  std::tuple{10, SimOp::kExcMatch, 0}, std::tuple{3, SimOp::kCompareOp, 3}}) {
    const auto opcode = static_cast<uint16_t>(find_opcode(Version::kPy38, "COMPARE_OP"));
    const Instruction instr = canonical(Version::kPy38, opcode, static_cast<uint32_t>(arg), 0);
    EXPECT_EQ(instr.op, op);
    EXPECT_EQ(instr.arg, negated);
  }
  const auto opcode = static_cast<uint16_t>(find_opcode(Version::kPy313, "COMPARE_OP"));
  const Instruction instr = canonical(Version::kPy313, opcode, 88, 0);
  EXPECT_EQ(instr.arg, static_cast<int>(CompareKind::kEqual));
  EXPECT_EQ(instr.aux, 1);
}

TEST(DecoderTest, NumbersCellsAsSlotsOfTheFrame) {
  const Decoded old = Bytes(Version::kPy310).op("LOAD_DEREF", 0).op("RETURN_VALUE").decode(3, 1);
  EXPECT_EQ(old.instructions[0].arg, 3);
  const Decoded recent = Bytes(Version::kPy312).op("LOAD_DEREF", 3).op("RETURN_VALUE").decode(3, 1);
  EXPECT_EQ(recent.instructions[0].arg, 3);
}

TEST(DecoderTest, LoopTargetLiesAfterEndFor) {
  const Decoded code = Bytes(Version::kPy312)
                           .op("LOAD_FAST", 0)
                           .op("GET_ITER")
                           .op("FOR_ITER", 2)  // counted from after its cache
                           .op("STORE_FAST", 1)
                           .op("JUMP_BACKWARD", 4)
                           .op("END_FOR")
                           .op("RETURN_CONST", 0)
                           .decode();
  EXPECT_EQ(code.instructions[2].target, InstrIndex(6));
  EXPECT_EQ(code.stack_depth(InstrIndex(6)), 0);
  EXPECT_FALSE(code.reachable(InstrIndex(5)));
}

TEST(DecoderTest, TracksTheBlockStack) {
  // try: f()  except: pass
  const Decoded code = Bytes(Version::kPy310)
                           .op("SETUP_FINALLY", 6)
                           .op("LOAD_GLOBAL", 0)
                           .op("CALL_FUNCTION", 0)
                           .op("POP_TOP")
                           .op("POP_BLOCK")
                           .op("LOAD_CONST", 0)
                           .op("RETURN_VALUE")
                           .op("POP_TOP")
                           .op("POP_TOP")
                           .op("POP_TOP")
                           .op("POP_EXCEPT")
                           .op("LOAD_CONST", 0)
                           .op("RETURN_VALUE")
                           .decode();
  const std::vector<Block> inside = code.blocks(InstrIndex(2));
  ASSERT_EQ(inside.size(), 1u);
  EXPECT_EQ(inside[0].handler, InstrIndex(7));
  EXPECT_EQ(inside[0].level, 0);
  EXPECT_TRUE(code.blocks(InstrIndex(5)).empty());
  EXPECT_EQ(code.stack_depth(InstrIndex(7)), 6);
  EXPECT_EQ(code.blocks(InstrIndex(7))[0].kind, Block::Kind::kExceptHandler);
  EXPECT_EQ(code.stack_depth(InstrIndex(11)), 0);
}

TEST(DecoderTest, FinallyBodyOf38HasTheShapeOfTheNormalEntry) {
  // try: f()  finally: g()
  const Decoded code = Bytes(Version::kPy38)
                           .op("SETUP_FINALLY", 10)
                           .op("LOAD_GLOBAL", 0)
                           .op("CALL_FUNCTION", 0)
                           .op("POP_TOP")
                           .op("POP_BLOCK")
                           .op("BEGIN_FINALLY")
                           .op("LOAD_GLOBAL", 1)
                           .op("CALL_FUNCTION", 0)
                           .op("POP_TOP")
                           .op("END_FINALLY")
                           .op("LOAD_CONST", 0)
                           .op("RETURN_VALUE")
                           .decode();
  EXPECT_EQ(code.stack_depth(InstrIndex(6)), 1);
  EXPECT_TRUE(code.state(InstrIndex(6)).varies);
  EXPECT_EQ(code.null_slots(InstrIndex(7)), Nulls{0});
  EXPECT_EQ(code.stack_depth(InstrIndex(10)), 0);
  EXPECT_FALSE(code.state(InstrIndex(10)).varies);
  EXPECT_EQ(code.max_depth, 7);
}

TEST(DecoderTest, HandlersOfExceptionTablesGetTheirDepth) {
  const std::string table = write_exception_table({{1, 4, 5, 0, true}});
  const Decoded code = Bytes(Version::kPy312)
                           .op("RESUME")
                           .op("LOAD_FAST", 0)
                           .op("POP_TOP")
                           .op("NOP")
                           .op("RETURN_CONST", 0)
                           .op("PUSH_EXC_INFO")
                           .op("RERAISE", 2)
                           .decode(4, 0, table);
  ASSERT_EQ(code.regions.size(), 1u);
  EXPECT_EQ(code.regions[0].handler, InstrIndex(5));
  EXPECT_EQ(code.instructions[2].region, 0);
  EXPECT_EQ(code.instructions[4].region, -1);
  EXPECT_EQ(code.stack_depth(InstrIndex(5)), 2);
}

TEST(DecoderTest, RefusesBrokenCode) {
  EXPECT_THROW(Bytes(Version::kPy38).op("LOAD_FAST", 0).decode(), InternalError);  // runs off the end
  EXPECT_THROW(Bytes(Version::kPy38).op("RETURN_VALUE").decode(), InternalError);  // nothing to return
  EXPECT_THROW(Bytes(Version::kPy38).op("JUMP_FORWARD", 8).decode(), InternalError);
}

TEST(LivenessTest, FollowsJumpsAndExceptionEdges) {
  // a is read by the handler only; b is written before it is read.
  const std::string table = write_exception_table({{1, 5, 6, 0, false}});
  const Decoded code = Bytes(Version::kPy312)
                           .op("RESUME")
                           .op("LOAD_FAST", 2)
                           .op("STORE_FAST", 1)
                           .op("LOAD_FAST", 1)
                           .op("POP_TOP")
                           .op("RETURN_CONST", 0)
                           .op("PUSH_EXC_INFO")
                           .op("LOAD_FAST", 0)
                           .op("RETURN_VALUE")
                           .decode(3, 0, table);
  const SlotSet& live = code.live_locals(InstrIndex(1));
  EXPECT_TRUE(live.contains(0));
  EXPECT_FALSE(live.contains(1));
  EXPECT_TRUE(live.contains(2));
  EXPECT_FALSE(code.live_locals(InstrIndex(5)).contains(0));
  EXPECT_TRUE(code.assigned_locals(InstrIndex(3)).contains(1));
  EXPECT_FALSE(code.assigned_locals(InstrIndex(6)).contains(1));
}

}  // namespace
}  // namespace framejit::bytecode
