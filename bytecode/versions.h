// What differs between CPython versions and is not an opcode table. One row per version; nothing else tests versions.
#pragma once

#include <cstdint>
#include <span>

#include "bytecode/instruction.h"

namespace framejit::bytecode {

enum class Version : uint8_t { kPy38, kPy39, kPy310, kPy311, kPy312, kPy313 };
inline constexpr int kVersionCount = 6;

enum class LineFormat : uint8_t { kLnotab, kLineTable, kLocations };

struct VersionTraits {
  Version version;
  const char* name;   // "3.8"
  uint8_t jump_unit;  // bytes per unit of a jump argument
  LineFormat line_format;
  bool has_blocks;  // block stack (true) or exception table
  bool has_resume;  // code starts with RESUME; calls take a NULL slot
  bool has_precall;
  bool shares_cell_slots;         // a cell that is also an argument has the argument's slot
  uint8_t end_for_instructions;   // instructions between a loop's end and ForIter's target
  CallLayout call_layout;         // of ordinary calls
  uint8_t compare_equal_arg;      // COMPARE_OP's argument for ==, whose result a conditional jump takes
  const char* load_fast_checked;  // the opcode that reads a local which may be unbound
  // What such a read says; %U: the name.
  const char* unbound_local_message;
  const char* unbound_free_message;
  bool list_asks_length;  // list() asks for __len__ before __iter__
  bool needle_first;      // a search compares what is looked for with the item, not the item with it
  bool close_returns;     // close() of a generator gives what the generator returns then
  bool sum_compensates;   // sum() of floats keeps what their additions lose
};

const VersionTraits& traits(Version version);

}  // namespace framejit::bytecode
