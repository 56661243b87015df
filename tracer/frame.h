// SimFrame: one Python frame under simulation, slot for slot as the interpreter would have it.
#pragma once

#include <vector>

#include "bytecode/decoded_code.h"
#include "tracer/signals.h"
#include "tracer/sym_value.h"

namespace framejit {

using bytecode::InstrIndex;
using bytecode::Instruction;

// 3.8 to 3.10: an entry of the block stack.
struct SimBlock {
  bool is_handler = false;  // EXCEPT_HANDLER: pops the previous exception
  InstrIndex handler;
  size_t level = 0;
};

struct SimFrame {
  bytecode::DecodedCodePtr code;
  Ref function;  // null for a segment's frame on 3.8 to 3.10
  Ref globals;
  Ref builtins;  // null where the frame would have a dictionary of its own
  std::vector<SymValue> slots;
  std::vector<bool> raw;  // the segment's own frame: slots that nothing has read or written yet
  PyObject* const* real_slots = nullptr;
  std::vector<SymValue> stack;
  std::vector<SimBlock> blocks;
  InstrIndex pc;    // the instruction being run
  InstrIndex next;  // the one that follows; jumps set it
  uint64_t pc_count = 0;
  // The caller's instruction pushes this frame's return value and does nothing else with it, so that a break in here
  // can be continued: the callee's twin runs on and the caller's twin goes on after the call.
  bool plain = false;
  bool library = false;  // code of torch or the standard library: the user's line is the caller's
  bool returned = false;
  SymValue result;
  SymValue handled;          // the exception that a bare `raise` raises again
  BreakPoint handler_point;  // where the exception that is being handled arose
  // Generators: what the last yield gave, and whether the frame stands at a yield.
  bool generator = false;
  bool started = false;
  bool yielded = false;
  bool finished = false;
  bool running = false;
  SymValue return_value;
  int cached_line = -1;
  graph::LocationId cached_location;

  SymValue pop() {
    SymValue value = std::move(stack.back());
    stack.pop_back();
    return value;
  }
  void push(SymValue value) { stack.push_back(std::move(value)); }
  SymValue& peek(size_t depth) { return stack[stack.size() - depth]; }
};

struct CallArgs {
  std::vector<SymValue> positional;
  std::vector<std::pair<Ref, SymValue>> keywords;

  bool has_keywords() const { return !keywords.empty(); }
  size_t count() const { return positional.size(); }
};

}  // namespace framejit
