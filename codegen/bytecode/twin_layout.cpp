// Which places of a code object twins can leave and enter, and what their stacks look like there.
#include <algorithm>

#include "base/check.h"
#include "codegen/bytecode/blocks.h"
#include "codegen/twin.h"

namespace framejit::codegen {

using bytecode::Decoded;
using bytecode::InstrIndex;
using bytecode::Instruction;
using bytecode::SimOp;
using bytecode::SlotKind;

namespace {

enum CodeFlag : int32_t { kOptimized = 0x1, kGenerator = 0x20, kCoroutine = 0x80, kAsyncGenerator = 0x200 };

InstrIndex find_body_start(const Decoded& code) {
  if (!bytecode::traits(code.version).has_resume) return InstrIndex(0);
  for (size_t i = 0; i < code.size(); ++i)
    if (code.instructions[i].op == SimOp::kResume) return InstrIndex(i + 1);
  return InstrIndex(code.size());
}

// Forward dataflow over 3.11's exception handling: PUSH_EXC_INFO saves the handled exception in the slot under the new
// one, POP_EXCEPT restores it, and a handler drops the slots above its depth.
class HandledSlots {
 public:
  explicit HandledSlots(const Decoded& code) : code_(code), slots_(code.size()), seen_(code.size()) {}

  std::vector<std::vector<int32_t>> run() {
    if (code_.size() > 0) reach(InstrIndex(0), {});
    while (!work_.empty()) {
      const InstrIndex i = work_.back();
      work_.pop_back();
      visit(i);
    }
    return std::move(slots_);
  }

 private:
  void reach(InstrIndex i, std::vector<int32_t> slots) {
    if (i.index() >= code_.size() || seen_[i.index()] || !code_.reachable(i)) return;
    seen_[i.index()] = true;
    slots_[i.index()] = std::move(slots);
    work_.push_back(i);
  }

  void visit(InstrIndex i) {
    const Instruction& instr = code_.at(i);
    std::vector<int32_t> after = slots_[i.index()];
    // Where PUSH_EXC_INFO is inside a region, it is for the sake of what follows: it cannot raise itself.
    if (instr.region >= 0 && instr.op != SimOp::kPushExcInfo) {
      const auto& region = code_.regions[instr.region];
      std::vector<int32_t> kept;
      for (int32_t slot : after)
        if (slot < region.depth) kept.push_back(slot);
      reach(region.handler, std::move(kept));
    }
    if (instr.op == SimOp::kSwap) swap(after, code_.stack_depth(i) - 1, code_.stack_depth(i) - instr.arg);
    if (instr.op == SimOp::kPushExcInfo) after.push_back(code_.stack_depth(i) - 1);
    if (instr.op == SimOp::kPopExcept && !after.empty()) after.pop_back();
    if (instr.jumps()) reach(instr.target, after);
    if (!bytecode::ends_block(instr.op)) reach(InstrIndex(i.index() + 1), std::move(after));
  }

  static void swap(std::vector<int32_t>& slots, int32_t a, int32_t b) {
    for (int32_t& slot : slots) {
      if (slot == a)
        slot = b;
      else if (slot == b)
        slot = a;
    }
  }

  const Decoded& code_;
  std::vector<std::vector<int32_t>> slots_;
  std::vector<bool> seen_;
  std::vector<InstrIndex> work_;
};

// Instructions whose effect is one call: all operands go, the call's result (if they push anything) comes.
bool is_call_like(const Instruction& instr) {
  switch (instr.op) {
    case SimOp::kCall:
    case SimOp::kCallEx:
    case SimOp::kLoadAttr:
    case SimOp::kLoadMethod:
    case SimOp::kStoreAttr:
    case SimOp::kDeleteAttr:
    case SimOp::kBinarySubscr:
    case SimOp::kBinarySlice:
    case SimOp::kStoreSubscr:
    case SimOp::kStoreSlice:
    case SimOp::kDeleteSubscr:
    case SimOp::kBinaryOp:
    case SimOp::kGetIter:
      return true;
    case SimOp::kUnaryOp:
      return instr.arg != static_cast<int32_t>(bytecode::UnaryKind::kNot);
    case SimOp::kCompareOp:
      return instr.aux == 0;
    default:
      return false;
  }
}

}  // namespace

TwinLayout::TwinLayout(const Decoded& code) : code_(code), body_start_(find_body_start(code)) {
  if (!bytecode::traits(code.version).has_blocks) handled_ = HandledSlots(code).run();
}

const char* TwinLayout::why_not_twin() const {
  if (code_.flags & (kGenerator | kCoroutine | kAsyncGenerator)) return "generators and coroutines have no twin";
  if (!(code_.flags & kOptimized)) return "only functions have a twin";
  return nullptr;
}

const char* TwinLayout::why_not_site(InstrIndex at) const {
  if (at.index() >= code_.size() || !code_.reachable(at)) return "no path leads there";
  if (at < body_start_) return "the frame is not set up there";
  if (code_.at(at).op == SimOp::kPushExcInfo) return "the handler that covers it needs what it is about to push";
  if (!handled_.empty() && !handled_[at.index()].empty()) {
    const int32_t region = code_.at(at).region;
    if (region < 0 || handled_[at.index()].back() >= code_.regions[region].depth)
      return "what raises there would leave the handler without ending it";
  }
  if (code_.state(at).varies && !bytecode::traits(code_.version).has_blocks) return "the stack there has two forms";
  for (SlotKind kind : code_.slot_kinds(at)) {
    if (kind == SlotKind::kException) return "an exception is being handled there, which this version keeps in a block";
    if (kind == SlotKind::kReturnPoint) return "a finally body's return address is on the stack there";
  }
  for (const bytecode::Block& block : code_.blocks(at))
    if (block.kind == bytecode::Block::Kind::kExceptHandler)
      return "an exception is being handled there, which this version keeps in a block";
  return nullptr;
}

const char* TwinLayout::why_not_exit(const ExitTarget& exit) const {
  if (const char* why = why_not_site(exit.at)) return why;
  if (exit.pending && !is_call_like(code_.at(exit.at))) return "the instruction is not a plain call of its operands";
  return nullptr;
}

int TwinLayout::exit_depth(const ExitTarget& exit) const {
  const int depth = code_.stack_depth(exit.at);
  return exit.pending ? depth - bytecode::stack_effect(code_.at(exit.at), false).pops : depth;
}

int TwinLayout::kept_depth(InstrIndex site, const ExitTarget& exit) const {
  int kept = std::min(code_.stack_depth(site), exit_depth(exit));
  const std::vector<bytecode::Block> from = code_.blocks(site);
  const std::vector<bytecode::Block> to = code_.blocks(exit.at);
  // A block is pushed at the depth that it restores.
  for (size_t i = common_blocks(from, to); i < to.size(); ++i) kept = std::min(kept, static_cast<int>(to[i].level));
  return kept;
}

std::vector<int32_t> TwinLayout::handled_slots(InstrIndex at) const {
  return handled_.empty() ? std::vector<int32_t>() : handled_[at.index()];
}

}  // namespace framejit::codegen
