#include "bytecode/assembler.h"

#include "base/check.h"
#include "bytecode/layout.h"
#include "bytecode/opcode_table.h"

namespace framejit::bytecode {

Assembler::Assembler(const Decoded& base) : base_(base), label_items_(base.size(), -1) {
  items_.reserve(base.size() * 2);
  for (const ExceptionRegion& region : base.regions) {
    regions_.push_back({label_of(region.handler), region.depth, region.push_lasti});
  }
}

Label Assembler::new_label() {
  label_items_.push_back(-1);
  return Label(label_items_.size() - 1);
}

bool Assembler::bound(Label label) const { return label_items_[label.index()] >= 0; }

void Assembler::bind(Label label) {
  FJ_CHECK(!bound(label), "label {} is bound twice", label.value);
  label_items_[label.index()] = static_cast<int32_t>(items_.size());
}

void Assembler::set_context(InstrIndex i) {
  context_ = i;
  position_ = base_.at(i).position;
  region_ = base_.at(i).region;
}

int32_t Assembler::add_region(const RegionSpec& spec) {
  regions_.push_back(spec);
  return static_cast<int32_t>(regions_.size()) - 1;
}

void Assembler::append(Item item) {
  item.region = region_;
  item.position = position_;
  item.context = context_;
  items_.push_back(item);
}

void Assembler::copy(InstrIndex i) {
  const Instruction& instr = base_.at(i);
  if (!bound(label_of(i))) bind(label_of(i));
  set_context(i);
  const OpcodeTable& table = opcode_table(base_.version);
  Item item;
  item.origin = i;
  if (instr.op == SimOp::kCall && instr.extra >= 0) {
    item.opcode = static_cast<uint16_t>(find_opcode(base_.version, "KW_NAMES"));
    item.arg = static_cast<uint32_t>(instr.extra);
    position_ = base_.keywords_position(i);
    append(item);
    position_ = instr.position;
  }
  if (instr.op == SimOp::kCall && traits(base_.version).has_precall) {
    item.opcode = static_cast<uint16_t>(find_opcode(base_.version, "PRECALL"));
    item.arg = instr.raw_arg;
    append(item);
  }
  item.opcode = instr.opcode;
  item.arg = instr.raw_arg;
  if (table[instr.opcode].kind == ArgKind::kLocalPair) {
    const bool store = instr.op == SimOp::kStoreFast;
    item.opcode = static_cast<uint16_t>(find_opcode(base_.version, store ? "STORE_FAST" : "LOAD_FAST"));
    item.arg = static_cast<uint32_t>(instr.arg);
    item.second_half = instr.second_half;
  }
  if (instr.jumps()) item.target = label_of(instr.target);
  append(item);
}

void Assembler::emit(uint16_t opcode, uint32_t arg) {
  Item item;
  item.opcode = opcode;
  item.arg = arg;
  append(item);
}

void Assembler::emit_jump(uint16_t opcode, Label target) {
  Item item;
  item.opcode = opcode;
  item.target = target;
  append(item);
}

AssembledCode Assembler::finish() const { return Layout(*this).run(); }

}  // namespace framejit::bytecode
