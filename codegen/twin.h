// Twins: the original code of a function with segment calls patched in, so that captured and uncaptured stretches of
// one frame take turns.
//
// The contract with runtime/ ("C++" below), which owns the callables. All of them take no arguments and reach the
// running twin frame through framejit_current_frame. Stack slots are numbered from the bottom of the frame's operand
// stack.
//
// A site before instruction `o` is `segment()`. It returns a small int:
//   0    return: C++ has made surplus slots safe (below); the twin empties the stack, calls take(), outside every
//        exception region, and returns its value. That may be the rest of the frame, to be run by who called the twin:
//        the twin is older than the exit.
//   1    nothing captured: the frame is untouched, `o` runs. But C methods that stand bound on the stack, for a call to
//        come, may be unbound there, with their NULL slot filled.
//   2+k  exit k of TwinSpec::exits. Before it returns, C++ writes locals and cells and the stack slots below
//        kept_depth(site, exit), in place, NULLs included. The stub drops the surplus slots [kept, depth at the site),
//        pushes None for each slot of [kept, depth at the exit), and, if there are such, calls take(): C++ then writes
//        these slots in place too; what take() returns is dropped. Then the twin jumps to the exit's instruction, past
//        any site at it.
// Where the static state varies (3.8's finally bodies) the frame may stand otherwise than Decoded says: C++ answers 2
// unless Decoded::stands_as_described.
//
// Surplus slots that hold NULL must be overwritten with None (a NULL cannot be popped); others should be left alone.
//
// Exit `pending`: the instruction is call-like and its callee was inlined and broke. "Depth at the exit" is the depth
// below its operands; then run_pending() is called in the exception region of that instruction and its result takes the
// place of the instruction's own, and the twin goes on behind it.
//
// Resume code is the same body entered in the middle: the same parameters, whose arguments are not looked at, and
// slots. Its prologue (cells, free variables) runs, blocks and None placeholders are pushed, and resume_slot() is
// called: C++ writes all locals, cells and stack slots of the exit in place. Then as above: jump, or run_pending().
//
// Handlers, 3.11+: inside an except handler the thread's handled exception belongs to the frame's state, and the one
// handled before lies in the stack slots that handled_slots() names, outermost first. Of a site's and an exit's handled
// slots the common first ones stay. Leaving others: the thread's handled exception (PyErr_SetHandledException) becomes
// what the first left slot holds. Entering: the first entered slot gets what is handled then, and the thread's handled
// exception becomes the one that the captured code handles there. Return (0) leaves all handlers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/py_ref.h"
#include "base/result.h"
#include "bytecode/decoded_code.h"
#include "bytecode/offset_map.h"

namespace framejit::codegen {

enum TwinAnswer : long { kAnswerReturn = 0, kAnswerNothing = 1, kAnswerFirstExit = 2 };

struct SegmentSite {
  bytecode::InstrIndex at;
  BorrowedRef segment;
};

struct ExitTarget {
  bytecode::InstrIndex at;
  bool pending = false;
  friend bool operator==(const ExitTarget& a, const ExitTarget& b) { return a.at == b.at && a.pending == b.pending; }
};

struct TwinSpec {
  std::vector<SegmentSite> sites;  // any order, at most one per instruction
  std::vector<ExitTarget> exits;   // exit k is answer 2+k
  BorrowedRef take;
  BorrowedRef run_pending;
  BorrowedRef resume_slot;
  std::optional<uint32_t> resume_at;  // build the resume code for this exit
};

struct TwinError {
  std::string message;
};

// The new code object; `offsets`, if asked for, says which instruction of the function each of its own stands for. A
// null Ref: a Python exception is set (memory). Throws InternalError on a broken invariant.
Result<Ref, TwinError> build_twin(const bytecode::DecodedCodePtr& code, const TwinSpec& spec,
                                  bytecode::OffsetMap* offsets = nullptr);

// What both sides of the contract must agree on. Cheap to make once per code object, and immutable. Refers to the
// decoded code, which must live as long.
class TwinLayout {
 public:
  explicit TwinLayout(const bytecode::Decoded& code);

  const bytecode::Decoded& code() const { return code_; }
  // Reasons are null if it is possible.
  const char* why_not_twin() const;
  const char* why_not_site(bytecode::InstrIndex at) const;
  const char* why_not_exit(const ExitTarget& exit) const;

  int depth(bytecode::InstrIndex at) const { return code_.stack_depth(at); }
  // Depth of the stack that an exit restores: at its instruction, or below its operands if it is pending.
  int exit_depth(const ExitTarget& exit) const;
  // How many slots stay where they are when a segment at `site` leaves through `exit`.
  int kept_depth(bytecode::InstrIndex site, const ExitTarget& exit) const;
  // Slots that are NULL at `at`, in twins; below an exit's depth if it is pending.
  std::vector<int32_t> null_slots(bytecode::InstrIndex at) const { return code_.null_slots(at); }
  // 3.11+: stack slots that hold the previously handled exception, outermost first.
  std::vector<int32_t> handled_slots(bytecode::InstrIndex at) const;
  // Where sites are worth having once this exit's instruction has run: behind it, at its jump's target, and where the
  // handlers that catch what it raises have ended. All are legal.
  std::vector<bytecode::InstrIndex> sites_after(const ExitTarget& exit) const;
  // Where a frame can have a site first: the first instruction after the prologue.
  bytecode::InstrIndex body_start() const { return body_start_; }

 private:
  const bytecode::Decoded& code_;
  bytecode::InstrIndex body_start_;
  std::vector<std::vector<int32_t>> handled_;  // empty before 3.11
};

// A readable listing of a code object, twin or not: lines, labels, canonical operations, names and constants.
std::string list_code(BorrowedRef code);

}  // namespace framejit::codegen
