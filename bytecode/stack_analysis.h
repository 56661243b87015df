// Static stack and block shapes: an abstract run over all paths, exception edges included.
#pragma once

#include <vector>

#include "bytecode/decoded.h"

namespace framejit::bytecode {

// Fills Decoded's states. A state is (depth, special slots, blocks); the first one to reach an instruction is the one
// that Decoded reports; paths without an exception go first, of these the ones that do not return from a finally body.
// On 3.8 such a body is entered with one value (NULL when control falls into it, a return address) or six (exception),
// and only there an instruction has more than one state.
class StackAnalysis {
 public:
  explicit StackAnalysis(Decoded& code) : code_(code) {}
  void run();

 private:
  struct State {
    int32_t depth = 0;
    int32_t specials = -1;
    int32_t blocks = -1;
    friend bool operator==(const State&, const State&) = default;
  };
  struct Pending {
    uint32_t index;
    State state;
  };

  void follow(Pending start);
  bool visit(uint32_t index, const State& state);
  void enter_region(const Instruction& instr, const State& state);
  // Applies the instruction at `index`, queues its jump, and returns whether control falls through.
  bool apply(uint32_t index, State& state);
  bool apply_generic(const Instruction& instr, State& state);
  void apply_setup(const Instruction& instr, State& state);
  bool apply_finally_op(const Instruction& instr, State& state);
  void apply_permutation(const Instruction& instr, State& state);
  void leave_handler(State& state, int pops);

  void push(State& state, SlotKind kind = SlotKind::kValue);
  void pop(State& state, int count);
  SlotKind kind_at(const State& state, int place) const;
  int32_t intern_special(int32_t below, int32_t place, SlotKind kind);
  int32_t intern_block(int32_t below, const Block& block);
  void pop_block(State& state);

  Decoded& code_;
  std::vector<Pending> normal_;
  std::vector<Pending> calls_of_finally_;
  std::vector<Pending> exceptional_;
  std::vector<std::pair<uint32_t, State>> further_states_;
  std::vector<bool> region_entered_;
};

}  // namespace framejit::bytecode
