// The part of a decoded code object that needs no interpreter: any version's bytes decode in any build.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bytecode/instruction.h"
#include "bytecode/versions.h"

namespace framejit::bytecode {

// One slot of the frame's localsplus. 3.11+: a cell that is also an argument or local shares its slot, and MakeCell
// wraps the value at entry. 3.8 to 3.10: it has a slot of its own, and the frame starts with the cell made from the
// argument in `from_arg`.
struct LocalSlot {
  bool is_local = false;
  bool is_cell = false;
  bool is_free = false;
  bool is_argument = false;
  int32_t from_arg = -1;
};

// Instructions [start, end) run under `handler`: the stack is cut to `depth`, the offset of the raising instruction is
// pushed if push_lasti, then the exception. 3.11+.
struct ExceptionRegion {
  InstrIndex start;
  InstrIndex end;
  InstrIndex handler;
  int32_t depth = 0;
  bool push_lasti = false;
};

// One entry of the block stack, 3.8 to 3.10.
struct Block {
  enum class Kind : uint8_t { kFinally, kExceptHandler };
  Kind kind = Kind::kFinally;
  InstrIndex handler;  // kFinally only
  int32_t level = 0;   // depth of the operand stack that the block restores
};

enum class SlotKind : uint8_t {
  kValue,
  kNull,         // always NULL
  kMethod,       // pushed by LoadMethod: an unbound method or NULL; NULL once method loads are lowered (code_builder.h)
  kMaybeNull,    // pushed by LoadFastAndClear
  kException,    // 3.8 to 3.10: one of the six values a handler finds; they may be NULL or None
  kReturnPoint,  // 3.8: address pushed by CallFinally
};

// Static facts at the point just before an instruction. On 3.8, where a finally body is entered with one value or
// six, they describe the entry without an exception, and `varies` is set.
struct StaticState {
  int32_t depth = -1;     // -1: unreachable
  int32_t specials = -1;  // chain of slots that are not plain values, see Decoded::slot_kinds
  int32_t blocks = -1;    // chain of blocks
  bool varies = false;
};

// Sets of localsplus slots.
class SlotSet {
 public:
  SlotSet() = default;
  explicit SlotSet(size_t slots, bool all = false) : words_((slots + 63) / 64, all ? ~uint64_t{0} : 0) {}
  bool contains(size_t slot) const { return words_[slot / 64] >> (slot % 64) & 1; }
  void add(size_t slot) { words_[slot / 64] |= uint64_t{1} << (slot % 64); }
  void remove(size_t slot) { words_[slot / 64] &= ~(uint64_t{1} << (slot % 64)); }
  bool unite(const SlotSet& other);      // true if this grew
  bool intersect(const SlotSet& other);  // true if this shrank
  friend bool operator==(const SlotSet& a, const SlotSet& b) { return a.words_ == b.words_; }

 private:
  std::vector<uint64_t> words_;
};

struct Liveness {
  std::vector<SlotSet> live;      // per instruction: slots read before they are written from there on
  std::vector<SlotSet> assigned;  // per instruction: slots bound on every path to it
};

class Decoded {
 public:
  Version version = Version::kPy312;
  std::vector<Instruction> instructions;
  std::vector<ExceptionRegion> regions;  // 3.11+, by start, disjoint
  std::vector<LocalSlot> slots;          // localsplus
  int32_t arg_count = 0;                 // as co_argcount: positional only included
  int32_t posonly_arg_count = 0;
  int32_t kwonly_arg_count = 0;
  int32_t flags = 0;        // co_flags
  int32_t local_count = 0;  // co_nlocals
  int32_t cell_count = 0;   // co_cellvars
  int32_t free_count = 0;   // co_freevars
  int32_t stack_size = 0;
  int32_t first_line = 0;
  int32_t max_depth = 0;  // deepest stack that the analysis found

  const Instruction& at(InstrIndex i) const { return instructions[i.index()]; }
  size_t size() const { return instructions.size(); }
  // Position of the KW_NAMES that was folded into a call: CPython gives it the line of the call's first line only.
  const Position& keywords_position(InstrIndex i) const;
  // The instruction that holds the code unit at this byte offset (its prefixes and caches included).
  InstrIndex index_at_offset(uint32_t byte_offset) const { return InstrIndex(unit_to_index_[byte_offset / 2]); }

  const StaticState& state(InstrIndex i) const { return states_[i.index()]; }
  int stack_depth(InstrIndex i) const { return states_[i.index()].depth; }
  bool reachable(InstrIndex i) const { return states_[i.index()].depth >= 0; }
  SlotKind slot_kind(InstrIndex i, size_t place) const;
  // Kinds of all stack slots before `i`, bottom first.
  std::vector<SlotKind> slot_kinds(InstrIndex i) const;
  // Slots that hold NULL before `i` once method loads are lowered (kNull and kMethod), bottom first.
  std::vector<int32_t> null_slots(InstrIndex i) const;
  // Whether a frame whose block stack has so many entries stands before `i` as the states say. Where they vary, an
  // exception or a `return` may have entered the finally body instead: no segment starts or ends there then.
  // is_null(place): whether that stack slot is NULL.
  template <class IsNull>
  bool stands_as_described(InstrIndex i, size_t block_count, IsNull is_null) const {
    if (!state(i).varies) return true;
    const std::vector<int32_t> nulls = null_slots(i);
    return block_count == blocks(i).size() && std::all_of(nulls.begin(), nulls.end(), is_null);
  }
  // Whether some instruction stands in a `try`, in a `with` or in one of their handlers.
  bool has_handlers() const { return !regions.empty() || !blocks_.empty(); }
  // Block stack before `i`, outermost first.
  std::vector<Block> blocks(InstrIndex i) const;

  // Slots of localsplus that are read before they are written from `i` on, along jumps and exception edges. Cells and
  // free variables always count. Computed at the first question; safe under the interpreter lock only.
  const SlotSet& live_locals(InstrIndex i) const { return liveness().live[i.index()]; }
  // Slots that are bound on every path to `i`.
  const SlotSet& assigned_locals(InstrIndex i) const { return liveness().assigned[i.index()]; }

 private:
  friend class Decoder;
  friend class StackAnalysis;
  const Liveness& liveness() const;

  // Chains of special slots and of blocks are trees of shared tails.
  struct SpecialSlot {
    int32_t below;  // index into specials_, -1: none
    int32_t place;
    SlotKind kind;
  };
  struct BlockNode {
    int32_t below;
    Block block;
  };
  std::vector<uint32_t> unit_to_index_;
  std::vector<std::pair<uint32_t, Position>> keywords_positions_;  // where it differs from the call's own, by index
  std::vector<StaticState> states_;
  std::vector<SpecialSlot> specials_;
  std::vector<BlockNode> blocks_;
  mutable std::shared_ptr<const Liveness> liveness_;
};

Liveness compute_liveness(const Decoded& decoded);

}  // namespace framejit::bytecode
