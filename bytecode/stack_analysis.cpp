#include "bytecode/stack_analysis.h"

#include <algorithm>

#include "base/check.h"

namespace framejit::bytecode {
namespace {

constexpr int kHandlerValues = 6;  // 3.8 to 3.10: previous and new (traceback, value, type)

}  // namespace

void StackAnalysis::run() {
  code_.states_.assign(code_.size(), StaticState{});
  region_entered_.assign(code_.regions.size(), false);
  if (code_.size() == 0) return;
  State entry;
  // 3.10 resumes a generator for the first time with None on its stack.
  if (code_.instructions[0].op == SimOp::kGenStart) entry.depth = 1;
  normal_.push_back({0, entry});
  while (!normal_.empty() || !calls_of_finally_.empty() || !exceptional_.empty()) {
    std::vector<Pending>& queue = !normal_.empty()             ? normal_
                                  : !calls_of_finally_.empty() ? calls_of_finally_
                                                               : exceptional_;
    const Pending next = queue.back();
    queue.pop_back();
    follow(next);
  }
}

void StackAnalysis::follow(Pending next) {
  while (visit(next.index, next.state)) {
    enter_region(code_.instructions[next.index], next.state);
    const bool falls_through = apply(next.index, next.state);
    code_.max_depth = std::max(code_.max_depth, next.state.depth);
    if (!falls_through) return;
    ++next.index;
    FJ_CHECK(next.index < code_.size(), "control runs off the end of the code");
  }
}

// False if nothing new can come of going on.
bool StackAnalysis::visit(uint32_t index, const State& state) {
  StaticState& known = code_.states_[index];
  code_.max_depth = std::max(code_.max_depth, state.depth);
  if (known.depth < 0) {
    known = {state.depth, state.specials, state.blocks, false};
    return true;
  }
  if (known.depth == state.depth && known.specials == state.specials && known.blocks == state.blocks) return false;
  known.varies = true;
  if (code_.version != Version::kPy38) {
    // Merges that differ in a slot's kind only. No compiler makes others.
    FJ_CHECK(known.depth == state.depth, "stack depth at instruction {} is {} or {}", index, known.depth, state.depth);
    return false;
  }
  // Twins mark with NOP where control comes in the first state only. The compiler of 3.8 leaves no NOP.
  if (code_.instructions[index].op == SimOp::kNop) return false;
  const std::pair<uint32_t, State> further{index, state};
  if (std::find(further_states_.begin(), further_states_.end(), further) != further_states_.end()) return false;
  further_states_.push_back(further);
  return true;
}

void StackAnalysis::enter_region(const Instruction& instr, const State& state) {
  if (instr.region < 0 || region_entered_[instr.region]) return;
  region_entered_[instr.region] = true;
  const ExceptionRegion& region = code_.regions[instr.region];
  FJ_CHECK(state.depth >= region.depth, "region keeps {} of {} values", region.depth, state.depth);
  State at_handler = state;
  pop(at_handler, state.depth - region.depth);
  if (region.push_lasti) push(at_handler);
  push(at_handler);
  exceptional_.push_back({region.handler.value, at_handler});
}

bool StackAnalysis::apply(uint32_t index, State& state) {
  const Instruction& instr = code_.instructions[index];
  switch (instr.op) {
    case SimOp::kCopy:
    case SimOp::kSwap:
    case SimOp::kRot:
    case SimOp::kDupTwo:
      apply_permutation(instr, state);
      return true;
    case SimOp::kSetupFinally:
    case SimOp::kSetupWith:
    case SimOp::kSetupAsyncWith:
      apply_setup(instr, state);
      return true;
    case SimOp::kPopBlock:
      pop_block(state);
      return true;
    case SimOp::kPopExcept:
    case SimOp::kEndAsyncFor:
      leave_handler(state, instr.aux);
      return true;
    case SimOp::kBeginFinally:
    case SimOp::kCallFinally:
    case SimOp::kEndFinally:
    case SimOp::kPopFinally:
    case SimOp::kWithCleanupStart:
    case SimOp::kWithCleanupFinish:
      return apply_finally_op(instr, state);
    default:
      return apply_generic(instr, state);
  }
}

bool StackAnalysis::apply_generic(const Instruction& instr, State& state) {
  if (instr.jumps()) {
    State at_target = state;
    const StackEffect taken = stack_effect(instr, true);
    pop(at_target, taken.pops);
    at_target.depth += taken.pushes;
    normal_.push_back({instr.target.value, at_target});
  }
  const StackEffect effect = stack_effect(instr, false);
  pop(state, effect.pops);
  const bool method_form =
      instr.op == SimOp::kLoadMethod || (instr.op == SimOp::kLoadSuperAttr && (instr.aux & kSuperMethod));
  if (method_form || instr.op == SimOp::kLoadGlobal) {
    const auto layout =
        instr.op == SimOp::kLoadSuperAttr ? static_cast<CallLayout>(instr.extra) : static_cast<CallLayout>(instr.aux);
    const SlotKind null = method_form ? SlotKind::kMethod : SlotKind::kNull;
    if (layout == CallLayout::kNullBelow) push(state, null);
    push(state);
    if (layout == CallLayout::kNullAbove) push(state, null);
  } else if (instr.op == SimOp::kPushNull) {
    push(state, SlotKind::kNull);
  } else if (instr.op == SimOp::kLoadFastAndClear) {
    push(state, SlotKind::kMaybeNull);
  } else {
    state.depth += effect.pushes;
  }
  return !ends_block(instr.op);
}

void StackAnalysis::apply_permutation(const Instruction& instr, State& state) {
  const int count = instr.op == SimOp::kDupTwo ? 2 : instr.arg;
  std::vector<SlotKind> kinds(count);
  for (int i = 0; i < count; ++i) kinds[i] = kind_at(state, state.depth - count + i);
  pop(state, count);
  switch (instr.op) {
    case SimOp::kCopy:
      kinds.push_back(kinds.front());
      break;
    case SimOp::kSwap:
      std::swap(kinds.front(), kinds.back());
      break;
    case SimOp::kRot:
      std::rotate(kinds.begin(), kinds.end() - 1, kinds.end());
      break;
    default:
      kinds.insert(kinds.end(), {kinds[0], kinds[1]});
  }
  for (SlotKind kind : kinds) push(state, kind);
}

void StackAnalysis::apply_setup(const Instruction& instr, State& state) {
  int32_t level = state.depth;
  if (instr.op == SimOp::kSetupAsyncWith) --level;
  State at_handler = state;
  pop(at_handler, state.depth - level);
  at_handler.blocks = intern_block(state.blocks, {Block::Kind::kExceptHandler, InstrIndex(), level});
  for (int i = 0; i < kHandlerValues; ++i) push(at_handler, SlotKind::kException);
  exceptional_.push_back({instr.target.value, at_handler});
  state.blocks = intern_block(state.blocks, {Block::Kind::kFinally, instr.target, level});
  const StackEffect effect = stack_effect(instr, false);
  state.depth += effect.delta();
}

// 3.8. The value on top tells how the finally body was entered: NULL, a return address, or an exception.
bool StackAnalysis::apply_finally_op(const Instruction& instr, State& state) {
  const auto top = [&](int n) { return kind_at(state, state.depth - n); };
  switch (instr.op) {
    case SimOp::kBeginFinally:
      push(state, SlotKind::kNull);
      return true;
    case SimOp::kCallFinally: {
      State body = state;
      push(body, SlotKind::kReturnPoint);
      calls_of_finally_.push_back({instr.target.value, body});
      return true;  // once the body has returned
    }
    case SimOp::kEndFinally: {
      const SlotKind entry = top(1);
      pop(state, 1);
      return entry != SlotKind::kReturnPoint && entry != SlotKind::kException;
    }
    case SimOp::kPopFinally: {
      pop(state, instr.arg);
      if (top(1) == SlotKind::kException) {
        leave_handler(state, kHandlerValues);
      } else {
        pop(state, 1);
      }
      if (instr.arg) push(state);
      return true;
    }
    case SimOp::kWithCleanupStart:
      if (top(1) != SlotKind::kException) {  // [exit, NULL] -> [NULL, None, result]
        const SlotKind entry = top(1);
        pop(state, 2);
        push(state, entry);
      } else {  // [exit, six values] -> [three, NULL, three, type, result], and the block's level sinks by one
        const Block handler = code_.blocks_[state.blocks].block;
        pop(state, kHandlerValues + 1);
        for (int i = 0; i < kHandlerValues + 1; ++i) push(state, SlotKind::kException);
        pop_block(state);
        state.blocks = intern_block(state.blocks, {handler.kind, handler.handler, handler.level - 1});
      }
      push(state);
      push(state);
      return true;
    default:  // WithCleanupFinish: a true result swallows the exception
      pop(state, 2);
      if (top(1) == SlotKind::kException) {
        State swallowed = state;
        leave_handler(swallowed, kHandlerValues + 1);
        push(swallowed, SlotKind::kNull);
        exceptional_.push_back({static_cast<uint32_t>(&instr - code_.instructions.data()) + 1, swallowed});
      }
      return true;
  }
}

void StackAnalysis::leave_handler(State& state, int pops) {
  if (traits(code_.version).has_blocks) pop_block(state);
  pop(state, pops);
}

void StackAnalysis::push(State& state, SlotKind kind) {
  if (kind != SlotKind::kValue) state.specials = intern_special(state.specials, state.depth, kind);
  ++state.depth;
}

void StackAnalysis::pop(State& state, int count) {
  FJ_CHECK(state.depth >= count, "{} values popped of {}", count, state.depth);
  state.depth -= count;
  while (state.specials >= 0 && code_.specials_[state.specials].place >= state.depth) {
    state.specials = code_.specials_[state.specials].below;
  }
}

SlotKind StackAnalysis::kind_at(const State& state, int place) const {
  FJ_CHECK(place >= 0, "stack underflow");
  for (int32_t node = state.specials; node >= 0; node = code_.specials_[node].below) {
    if (code_.specials_[node].place == place) return code_.specials_[node].kind;
    if (code_.specials_[node].place < place) break;
  }
  return SlotKind::kValue;
}

// Equal chains must be one chain, so that states compare by index. Recent nodes are the likely ones.
int32_t StackAnalysis::intern_special(int32_t below, int32_t place, SlotKind kind) {
  for (int32_t i = static_cast<int32_t>(code_.specials_.size()) - 1; i > below; --i) {
    const Decoded::SpecialSlot& slot = code_.specials_[i];
    if (slot.below == below && slot.place == place && slot.kind == kind) return i;
  }
  code_.specials_.push_back({below, place, kind});
  return static_cast<int32_t>(code_.specials_.size()) - 1;
}

int32_t StackAnalysis::intern_block(int32_t below, const Block& block) {
  for (int32_t i = static_cast<int32_t>(code_.blocks_.size()) - 1; i > below; --i) {
    const Decoded::BlockNode& node = code_.blocks_[i];
    if (node.below == below && node.block.kind == block.kind && node.block.handler == block.handler &&
        node.block.level == block.level) {
      return i;
    }
  }
  code_.blocks_.push_back({below, block});
  return static_cast<int32_t>(code_.blocks_.size()) - 1;
}

void StackAnalysis::pop_block(State& state) {
  FJ_CHECK(state.blocks >= 0, "no block to pop");
  state.blocks = code_.blocks_[state.blocks].below;
}

}  // namespace framejit::bytecode
