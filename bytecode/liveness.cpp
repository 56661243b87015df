// Liveness and definite assignment of localsplus slots, over jumps and exception edges.
#include <algorithm>

#include "bytecode/decoded.h"

namespace framejit::bytecode {
namespace {

constexpr int kVarArgs = 0x04;  // co_flags
constexpr int kVarKeywords = 0x08;

class LivenessPass {
 public:
  explicit LivenessPass(const Decoded& code) : code_(code) { find_edges(); }

  Liveness run() {
    Liveness result;
    result.live.assign(code_.size(), always_live());
    while (live_sweep(result.live)) {
    }
    result.assigned.assign(code_.size(), SlotSet(code_.slots.size(), true));
    if (code_.size() > 0) result.assigned[0].intersect(assigned_at_entry());
    while (assigned_sweep(result.assigned)) {
    }
    return result;
  }

 private:
  static constexpr uint32_t kNowhere = InstrIndex::kInvalid;

  // Where an exception in each instruction goes; which stores may store a NULL that LoadFastAndClear pushed; and, for
  // 3.8, what follows each CallFinally.
  void find_edges() {
    handlers_.assign(code_.size(), kNowhere);
    stores_null_.assign(code_.size(), false);
    for (uint32_t i = 0; i < code_.size(); ++i) {
      const Instruction& instr = code_.instructions[i];
      if (instr.region >= 0) handlers_[i] = code_.regions[instr.region].handler.value;
      if (instr.op == SimOp::kCallFinally) finally_returns_.push_back(i + 1);
      if (instr.op == SimOp::kStoreFast && code_.reachable(InstrIndex(i))) {
        stores_null_[i] = code_.slot_kinds(InstrIndex(i)).back() != SlotKind::kValue;
      }
      if (!traits(code_.version).has_blocks || !code_.reachable(InstrIndex(i))) continue;
      const std::vector<Block> blocks = code_.blocks(InstrIndex(i));
      for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
        if (block->kind != Block::Kind::kFinally) continue;
        handlers_[i] = block->handler.value;
        break;
      }
    }
  }

  template <class Visit>
  void each_successor(uint32_t i, Visit visit) const {
    const Instruction& instr = code_.instructions[i];
    if (instr.jumps()) visit(instr.target.value);
    if (instr.op == SimOp::kEndFinally) {
      for (uint32_t next : finally_returns_) visit(next);
    }
    if (!ends_block(instr.op) && instr.op != SimOp::kCallFinally && i + 1 < code_.size()) visit(i + 1);
  }

  SlotSet always_live() const {
    SlotSet set(code_.slots.size());
    for (size_t slot = 0; slot < code_.slots.size(); ++slot) {
      if (code_.slots[slot].is_cell || code_.slots[slot].is_free) set.add(slot);
    }
    return set;
  }

  SlotSet assigned_at_entry() const {
    SlotSet set = always_live();
    const int args = code_.arg_count + code_.kwonly_arg_count + ((code_.flags & kVarArgs) ? 1 : 0) +
                     ((code_.flags & kVarKeywords) ? 1 : 0);
    for (int slot = 0; slot < args; ++slot) set.add(slot);
    return set;
  }

  bool live_sweep(std::vector<SlotSet>& live) const {
    bool changed = false;
    for (uint32_t i = static_cast<uint32_t>(code_.size()); i-- > 0;) {
      SlotSet set = always_live_;
      each_successor(i, [&](uint32_t next) { set.unite(live[next]); });
      const Instruction& instr = code_.instructions[i];
      switch (instr.op) {
        case SimOp::kStoreFast:
          if (!always_live_.contains(instr.arg)) set.remove(instr.arg);
          break;
        case SimOp::kLoadFast:
        case SimOp::kLoadFastAndClear:
        case SimOp::kDeleteFast:
          set.add(instr.arg);
          break;
        default:
          break;
      }
      if (handlers_[i] != kNowhere) set.unite(live[handlers_[i]]);
      changed |= live[i].unite(set);
    }
    return changed;
  }

  bool assigned_sweep(std::vector<SlotSet>& assigned) const {
    bool changed = false;
    for (uint32_t i = 0; i < code_.size(); ++i) {
      SlotSet set = assigned[i];
      const Instruction& instr = code_.instructions[i];
      if (instr.op == SimOp::kStoreFast && !stores_null_[i]) set.add(instr.arg);
      if (instr.op == SimOp::kDeleteFast || instr.op == SimOp::kLoadFastAndClear) set.remove(instr.arg);
      each_successor(i, [&](uint32_t next) { changed |= assigned[next].intersect(set); });
      if (handlers_[i] == kNowhere) continue;
      changed |= assigned[handlers_[i]].intersect(assigned[i]);
      changed |= assigned[handlers_[i]].intersect(set);
    }
    return changed;
  }

  const Decoded& code_;
  const SlotSet always_live_ = always_live();
  std::vector<uint32_t> handlers_;
  std::vector<bool> stores_null_;
  std::vector<uint32_t> finally_returns_;
};

}  // namespace

Liveness compute_liveness(const Decoded& decoded) { return LivenessPass(decoded).run(); }

}  // namespace framejit::bytecode
