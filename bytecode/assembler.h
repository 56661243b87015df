// Bytecode out of an edited stream of instructions: the reverse of the decoder, for any version, without an
// interpreter.
//
// A twin is written front to back: copy() the original instructions in their order, emit others between and after them.
// The assembler keeps jumps, widens arguments, lays out caches, measures the stack and writes the exception and line
// tables. Copied instructions keep their constants, names and slots, so pools may only grow (code_builder.h).
#pragma once

#include <string>
#include <vector>

#include "bytecode/decoded.h"
#include "bytecode/offset_map.h"

namespace framejit::bytecode {

struct LabelTag {};
using Label = Id<LabelTag>;

// An exception region of 3.11+, with its handler as a label.
struct RegionSpec {
  Label handler;
  int32_t depth = 0;
  bool push_lasti = false;
};
inline constexpr int32_t kNoRegion = -1;

struct AssembledCode {
  std::string code;
  std::string line_table;
  std::string exception_table;  // empty before 3.11
  int32_t stack_size = 0;
  OffsetMap offsets;
};

class Assembler {
 public:
  // Regions 0.. of the assembler are base.regions.
  explicit Assembler(const Decoded& base);

  const Decoded& base() const { return base_; }

  Label new_label();
  void bind(Label label);
  bool bound(Label label) const;
  // The place that copied jumps to the original instruction `i`, and handlers that start there, go to: where copy(i)
  // puts it, unless bind(label_of(i)) came first. So a segment site before `i` is: bind(label_of(i)), the site,
  // copy(i).
  Label label_of(InstrIndex i) const { return Label(i.value); }

  // Position and exception region of what is emitted from here on; copy() takes those of its instruction, and leaves
  // them set.
  void set_context(InstrIndex i);
  void set_position(const Position& position) { position_ = position; }
  void set_region(int32_t region) { region_ = region; }
  int32_t region() const { return region_; }
  int32_t add_region(const RegionSpec& spec);

  // Copies one original instruction, with what was folded into it.
  void copy(InstrIndex i);
  // Appends an instruction of the base's version by CPython's number.
  void emit(uint16_t opcode, uint32_t arg = 0);
  // The same with a jump. The direction that the opcode names does not matter: the right form is chosen by where the
  // label lies; a conditional jump that a version has forward only is written as its opposite round a backward jump.
  void emit_jump(uint16_t opcode, Label target);

  // All labels used must be bound.
  AssembledCode finish() const;

 private:
  friend class Layout;
  struct Item {
    uint16_t opcode = 0;
    uint32_t arg = 0;
    Label target;
    int32_t region = kNoRegion;
    Position position;
    InstrIndex origin;         // the copied instruction, if any
    InstrIndex context;        // that it stands for
    bool second_half = false;  // copied from the second half of an instruction pair (3.13)
  };
  void append(Item item);

  const Decoded& base_;
  std::vector<Item> items_;
  std::vector<int32_t> label_items_;  // label -> index of the item it precedes, -1: unbound
  std::vector<RegionSpec> regions_;
  Position position_;
  InstrIndex context_{0};
  int32_t region_ = kNoRegion;
};

}  // namespace framejit::bytecode
