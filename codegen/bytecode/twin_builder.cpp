// Writes a twin: [prologue] [resume entry, or a jump to the body] [per stack shape: dispatcher and its stubs] [body
// with sites]. The stubs come before the body, because up to 3.10 a block's handler must lie ahead of where the block
// is pushed.
//
// Sites whose stacks have one shape (depth and block stack) share a dispatcher, which turns the segment's answer into a
// jump to a stub; so the code grows with shapes x exits, not with sites x exits.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/check.h"
#include "bytecode/code_builder.h"
#include "codegen/bytecode/blocks.h"
#include "codegen/twin.h"

namespace framejit::codegen {

using bytecode::Block;
using bytecode::InstrIndex;
using bytecode::Instruction;
using bytecode::Label;
using bytecode::SimOp;

namespace {

bool loads_method(const Instruction& instr) {
  return instr.op == SimOp::kLoadMethod || (instr.op == SimOp::kLoadSuperAttr && (instr.aux & bytecode::kSuperMethod));
}

class TwinBuilder {
 public:
  TwinBuilder(const bytecode::DecodedCodePtr& code, const TwinSpec& spec)
      : code_(*code), spec_(spec), layout_(*code), out_(code) {}

  Result<Ref, TwinError> build() {
    if (auto error = check()) return Err{*std::move(error)};
    for (const ExitTarget& exit : spec_.exits)
      if (!exit.pending && entries_.count(exit.at) == 0) entries_.emplace(exit.at, out_.new_label());
    for (const SegmentSite& site : spec_.sites) shape_at(site.at);
    out_.copy_prologue();
    const Label body = out_.new_label();
    if (spec_.resume_at)
      write_resume_entry(spec_.exits[*spec_.resume_at]);
    else if (!shapes_.empty())
      out_.jump(body);
    for (const Shape& shape : shapes_) write_dispatcher(shape);
    out_.bind(body);
    write_body();
    return out_.finish();
  }
  bytecode::OffsetMap take_offsets() { return out_.take_offsets(); }

 private:
  struct Shape {
    int depth;
    std::vector<Block> blocks;
    InstrIndex site;  // any site of this shape
    Label dispatcher;
    bool varies;  // whether control may pass a site with another stack, and then never leaves through it
  };

  std::optional<TwinError> check() {
    if (const char* why = layout_.why_not_twin()) return TwinError{why};
    if (spec_.resume_at && *spec_.resume_at >= spec_.exits.size()) return TwinError{"no such exit to resume at"};
    for (const SegmentSite& site : spec_.sites) {
      if (const char* why = layout_.why_not_site(site.at))
        return TwinError{fmt::format("no segment can start at instruction {}: {}", site.at.value, why)};
      if (!sites_.emplace(site.at, site.segment).second)
        return TwinError{fmt::format("two segments start at instruction {}", site.at.value)};
    }
    for (const ExitTarget& exit : spec_.exits)
      if (const char* why = layout_.why_not_exit(exit))
        return TwinError{fmt::format("no exit can lead to instruction {}: {}", exit.at.value, why)};
    return std::nullopt;
  }

  void write_body() {
    for (size_t n = layout_.body_start().index(); n < code_.size(); ++n) {
      const InstrIndex i(n);
      if (auto site = sites_.find(i); site != sites_.end()) {
        out_.bind(out_.label_of(i));
        write_site(i, site->second);
      }
      if (auto entry = entries_.find(i); entry != entries_.end()) out_.bind(entry->second);
      if (loads_method(code_.at(i)) && !reaches_its_call(i))
        out_.copy_method_load_lowered(i);
      else
        out_.copy(i);
    }
  }

  // Whether nothing comes between a method's load and its call: no segment starts where the method is on the stack, and
  // none leads to there but to the call itself, which takes either form.
  bool reaches_its_call(InstrIndex load) const {
    const Instruction& instr = code_.at(load);
    const int place = code_.stack_depth(load) - bytecode::stack_effect(instr, false).pops;
    for (size_t n = load.index() + 1; n < code_.size(); ++n) {
      const InstrIndex i(n);
      const Instruction& call = code_.at(i);
      if (sites_.count(i)) return false;
      if (call.op == SimOp::kCall && code_.reachable(i) &&
          code_.stack_depth(i) - call.arg - (call.extra == bytecode::kKeywordsOnStack) - 2 == place)
        return true;
      if (entries_.count(i)) return false;
    }
    return false;
  }

  void write_site(InstrIndex at, BorrowedRef segment) {
    const Label nothing = out_.new_label();
    out_.set_context(at);
    out_.call0(segment);
    out_.branch_if_equal(kAnswerNothing, nothing);
    out_.jump(shape_at(at).dispatcher);
    out_.bind(nothing);
    out_.pop_top();
  }

  const Shape& shape_at(InstrIndex site) {
    const bytecode::StaticState& state = code_.state(site);
    std::vector<Block> blocks = code_.blocks(site);
    for (Shape& shape : shapes_)
      if (shape.depth == state.depth && shape.blocks.size() == blocks.size() &&
          common_blocks(shape.blocks, blocks) == blocks.size()) {
        shape.varies |= state.varies;
        return shape;
      }
    shapes_.push_back({state.depth, std::move(blocks), site, out_.new_label(), state.varies});
    return shapes_.back();
  }

  // [.., answer] with the shape's stack below.
  void write_dispatcher(const Shape& shape) {
    std::vector<Label> stubs;
    out_.set_context(shape.site);
    out_.leave_region();
    out_.bind(shape.dispatcher);
    if (shape.varies) out_.nop();  // see StackAnalysis::visit
    for (size_t k = 0; k < spec_.exits.size(); ++k) {
      stubs.push_back(out_.new_label());
      out_.branch_if_equal(kAnswerFirstExit + static_cast<long>(k), stubs.back());
    }
    write_return(shape);
    for (size_t k = 0; k < spec_.exits.size(); ++k) {
      out_.bind(stubs[k]);
      write_stub(shape, spec_.exits[k]);
    }
  }

  void write_return(const Shape& shape) {
    for (size_t i = 0; i < shape.blocks.size(); ++i) out_.pop_block();
    out_.pop_top(1 + shape.depth);
    out_.call0(spec_.take);
    out_.return_value();
  }

  void write_stub(const Shape& shape, const ExitTarget& exit) {
    const int kept = layout_.kept_depth(shape.site, exit);
    const std::vector<Block> blocks = code_.blocks(exit.at);
    const size_t kept_blocks = common_blocks(shape.blocks, blocks);
    enter_context(exit.at, kept);
    out_.pop_top();
    for (size_t i = kept_blocks; i < shape.blocks.size(); ++i) out_.pop_block();
    out_.pop_top(shape.depth - kept);
    const int depth = layout_.exit_depth(exit);
    write_stack(kept, depth, blocks, kept_blocks);
    if (depth > kept) {
      out_.call0(spec_.take);
      out_.pop_top();
    }
    write_entry(exit);
  }

  void write_resume_entry(const ExitTarget& exit) {
    enter_context(exit.at, 0);
    write_stack(0, layout_.exit_depth(exit), code_.blocks(exit.at), 0);
    out_.call0(spec_.resume_slot);
    out_.pop_top();
    write_entry(exit);
  }

  // The position of `at`, and its exception region if an unwinding from `depth` values on is possible.
  void enter_context(InstrIndex at, int depth) {
    out_.set_context(at);
    const int32_t region = code_.at(at).region;
    if (region >= 0 && code_.regions[region].depth > depth) out_.leave_region();
  }

  // Placeholders for slots [from, to), and the blocks that start between them.
  void write_stack(int from, int to, const std::vector<Block>& blocks, size_t next_block) {
    for (int slot = from; slot <= to; ++slot) {
      for (; next_block < blocks.size() && blocks[next_block].level == slot; ++next_block)
        out_.setup_finally(out_.label_of(blocks[next_block].handler));
      if (slot < to) out_.load_none();
    }
    FJ_CHECK(next_block == blocks.size(), "a block restores a stack deeper than its exit's");
  }

  // The stack is the exit's; go on there.
  void write_entry(const ExitTarget& exit) {
    out_.set_context(exit.at);
    if (!exit.pending) {
      out_.jump(entries_.at(exit.at));
      return;
    }
    const Instruction& instr = code_.at(exit.at);
    const bool method = instr.op == SimOp::kLoadMethod;
    if (method && instr.layout() != bytecode::CallLayout::kNullAbove) out_.push_null();
    out_.call0(spec_.run_pending);
    if (method && instr.layout() == bytecode::CallLayout::kNullAbove) out_.push_null();
    if (bytecode::stack_effect(instr, false).pushes == 0) out_.pop_top();
    out_.jump(out_.label_of(InstrIndex(exit.at.index() + 1)));
  }

  const bytecode::DecodedCode& code_;
  const TwinSpec& spec_;
  TwinLayout layout_;
  bytecode::CodeBuilder out_;
  std::map<InstrIndex, BorrowedRef> sites_;
  std::unordered_map<InstrIndex, Label> entries_;  // where exits enter: behind the site, if there is one
  std::vector<Shape> shapes_;
};

}  // namespace

Result<Ref, TwinError> build_twin(const bytecode::DecodedCodePtr& code, const TwinSpec& spec,
                                  bytecode::OffsetMap* offsets) {
  TwinBuilder builder(code, spec);
  Result<Ref, TwinError> built = builder.build();
  if (offsets) *offsets = builder.take_offsets();
  return built;
}

}  // namespace framejit::codegen
