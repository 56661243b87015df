// Where a frame can have segments again once an exit's instruction has run.
#include <algorithm>
#include <set>

#include "codegen/twin.h"

namespace framejit::codegen {

using bytecode::Block;
using bytecode::Decoded;
using bytecode::InstrIndex;
using bytecode::Instruction;
using bytecode::SimOp;
using bytecode::SlotKind;

namespace {

class SiteSearch {
 public:
  SiteSearch(const Decoded& code, const TwinLayout& layout) : code_(code), layout_(layout) {}

  std::vector<InstrIndex> run(const ExitTarget& exit) {
    const Instruction& instr = code_.at(exit.at);
    if (!bytecode::ends_block(instr.op)) add_next_site(next(exit.at));
    if (instr.jumps() && !is_setup(instr.op)) add_next_site(instr.target);
    for (InstrIndex handler : handlers_of(exit.at)) follow_handler(handler);
    return {sites_.begin(), sites_.end()};
  }

 private:
  static constexpr int kMaxSteps = 64;

  static InstrIndex next(InstrIndex i) { return InstrIndex(i.index() + 1); }
  static bool is_setup(SimOp op) {
    return op == SimOp::kSetupFinally || op == SimOp::kSetupWith || op == SimOp::kSetupAsyncWith;
  }

  // A traceback has this frame, whose last line is that of the instruction which left it.
  bool leaves_frame(InstrIndex i) const {
    const SimOp op = code_.at(i).op;
    return op == SimOp::kReturnValue || op == SimOp::kReturnConst || (op == SimOp::kReraise && handlers_of(i).empty());
  }

  // The first legal place from `i` on, along the straight line that control takes if no branch is taken. Where that
  // line comes round to itself, as in a loop inside a 3.8 finally body, it goes on at the branch that it passed last.
  void add_next_site(InstrIndex i) {
    std::set<InstrIndex> line;
    std::vector<InstrIndex> branches;
    for (int steps = 0; steps < kMaxSteps && i.index() < code_.size() && code_.reachable(i); ++steps) {
      if (layout_.why_not_site(i) == nullptr) {
        if (!leaves_frame(i)) sites_.insert(i);
        return;
      }
      const Instruction& instr = code_.at(i);
      if (!line.insert(i).second) {
        if (branches.empty()) return;
        i = branches.back();
        branches.pop_back();
        continue;
      }
      if (bytecode::ends_block(instr.op) && instr.op != SimOp::kJump) return;
      if (instr.jumps() && instr.op != SimOp::kJump && !is_setup(instr.op)) branches.push_back(instr.target);
      i = instr.op == SimOp::kJump ? instr.target : next(i);
    }
  }

  std::vector<InstrIndex> handlers_of(InstrIndex i) const {
    std::vector<InstrIndex> handlers;
    if (const int32_t region = code_.at(i).region; region >= 0) handlers.push_back(code_.regions[region].handler);
    for (const Block& block : code_.blocks(i))
      if (block.kind == Block::Kind::kFinally) handlers.push_back(block.handler);
    return handlers;
  }

  // Walks a handler along its normal edges, and the handlers round it, up to where they have ended.
  void follow_handler(InstrIndex handler) {
    std::vector<InstrIndex> work{handler};
    while (!work.empty()) {
      const InstrIndex i = work.back();
      work.pop_back();
      if (i.index() >= code_.size() || !code_.reachable(i) || !seen_.insert(i).second) continue;
      if (!inside_handler(i)) {
        add_next_site(i);
        continue;
      }
      const Instruction& instr = code_.at(i);
      if (!bytecode::ends_block(instr.op) && !raises_again(i)) work.push_back(next(i));
      if (instr.jumps()) work.push_back(instr.target);
      for (InstrIndex outer : handlers_of(i)) work.push_back(outer);
    }
  }

  // 3.8: the end of a finally body that an exception entered; only a `with` statement may have swallowed it.
  bool raises_again(InstrIndex i) const {
    return code_.at(i).op == SimOp::kEndFinally && !holds_exception(i) &&
           code_.at(InstrIndex(i.index() - 1)).op != SimOp::kWithCleanupFinish;
  }

  bool inside_handler(InstrIndex i) const {
    return code_.at(i).op == SimOp::kPushExcInfo || !layout_.handled_slots(i).empty() || code_.state(i).varies ||
           holds_exception(i);
  }

  // Up to 3.10, in the state that the code is known by.
  bool holds_exception(InstrIndex i) const {
    for (const Block& block : code_.blocks(i))
      if (block.kind == Block::Kind::kExceptHandler) return true;
    for (SlotKind kind : code_.slot_kinds(i))
      if (kind == SlotKind::kException || kind == SlotKind::kReturnPoint) return true;
    return false;
  }

  const Decoded& code_;
  const TwinLayout& layout_;
  std::set<InstrIndex> sites_;
  std::set<InstrIndex> seen_;
};

}  // namespace

std::vector<InstrIndex> TwinLayout::sites_after(const ExitTarget& exit) const {
  return SiteSearch(code_, *this).run(exit);
}

}  // namespace framejit::codegen
