#include "bytecode/layout.h"

#include <algorithm>

#include "base/check.h"
#include "bytecode/decoder.h"
#include "bytecode/exception_table.h"
#include "bytecode/line_table.h"

namespace framejit::bytecode {
namespace {

uint8_t prefixes_for(uint32_t arg) { return (arg > 0xff) + (arg > 0xffff) + (arg > 0xffffff); }

uint8_t opposite(JumpCondition condition) {
  switch (condition) {
    case JumpCondition::kFalse:
      return static_cast<uint8_t>(JumpCondition::kTrue);
    case JumpCondition::kTrue:
      return static_cast<uint8_t>(JumpCondition::kFalse);
    case JumpCondition::kNone:
      return static_cast<uint8_t>(JumpCondition::kNotNone);
    default:
      return static_cast<uint8_t>(JumpCondition::kNone);
  }
}

}  // namespace

Layout::Layout(const Assembler& source)
    : source_(source), version_(source.base_.version), traits_(traits(version_)), table_(opcode_table(version_)) {}

AssembledCode Layout::run() {
  lower_items();
  place_items();
  AssembledCode code;
  code.code = write_code();
  code.line_table = write_positions();
  if (!traits_.has_blocks) code.exception_table = write_regions();
  code.offsets = write_offsets();
  code.stack_size = std::max(source_.base_.stack_size, measure_stack(code));
  return code;
}

void Layout::lower_items() {
  find_used_labels();
  items_.reserve(source_.items_.size());
  for (size_t i = 0; i < source_.items_.size(); ++i) {
    item_of_source_.push_back(static_cast<uint32_t>(items_.size()));
    const Item& item = source_.items_[i];
    if (item.target.valid()) {
      lower_jump(item, i);
    } else if (fuse_pair(i)) {
      item_of_source_.push_back(static_cast<uint32_t>(items_.size()));  // nothing jumps to the second half
      ++i;
    } else {
      append(item);
    }
  }
  item_of_source_.push_back(static_cast<uint32_t>(items_.size()));
}

void Layout::find_used_labels() {
  used_labels_.assign(source_.items_.size() + 1, false);
  const auto use = [&](Label label) {
    FJ_CHECK(source_.bound(label), "label {} is used and not bound", label.value);
    used_labels_[source_.label_items_[label.index()]] = true;
  };
  for (const Item& item : source_.items_) {
    if (item.target.valid()) use(item.target);
    if (item.region != kNoRegion) use(source_.regions_[item.region].handler);
  }
}

void Layout::append(const Item& item) {
  items_.push_back(item);
  skip_targets_.push_back(-1);
}

// 3.13: two halves that are still neighbours go back into one instruction.
bool Layout::fuse_pair(size_t i) {
  if (i + 1 >= source_.items_.size() || used_labels_[i + 1]) return false;
  const Item& next = source_.items_[i + 1];
  const Item& item = source_.items_[i];
  if (!next.second_half || !item.origin.valid() || item.origin.value + 1 != next.origin.value) return false;
  Item pair = item;
  pair.opcode = source_.base_.at(item.origin).opcode;
  pair.arg = item.arg << 4 | next.arg;
  append(pair);
  return true;
}

// An opcode with the same meaning as `info`, but this kind of argument and this aux; -1: the version has none.
int Layout::find_variant(const OpcodeInfo& info, ArgKind kind, uint8_t aux) const {
  for (size_t opcode = 0; opcode < table_.size(); ++opcode) {
    if (table_[opcode].kind == kind && table_[opcode].op == info.op && table_[opcode].aux == aux) {
      return static_cast<int>(opcode);
    }
  }
  return -1;
}

void Layout::lower_jump(Item item, size_t source_index) {
  const OpcodeInfo& info = table_[item.opcode];
  FJ_CHECK(is_jump(info.kind), "{} does not jump", info.name);
  const bool backward = source_.label_items_[item.target.index()] <= static_cast<int32_t>(source_index);
  const ArgKind wanted = backward ? ArgKind::kJumpBack : ArgKind::kJumpRel;
  if (info.kind == ArgKind::kJumpAbs || info.kind == wanted) return append(item);
  int variant = find_variant(info, wanted, info.aux);
  if (variant < 0) variant = find_variant(info, ArgKind::kJumpAbs, info.aux);
  if (variant < 0 && info.op == SimOp::kJump) variant = find_variant(info, wanted, 0);
  if (variant >= 0) {
    item.opcode = static_cast<uint16_t>(variant);
    return append(item);
  }
  // Backward, and only forward conditional jumps exist: jump over a backward jump on the opposite condition.
  FJ_CHECK(info.op == SimOp::kPopJumpIf, "{} cannot jump backward", info.name);
  Item over = item;
  over.opcode =
      static_cast<uint16_t>(find_variant(info, ArgKind::kJumpRel, opposite(static_cast<JumpCondition>(info.aux))));
  append(over);
  skip_targets_.back() = static_cast<int32_t>(items_.size()) + 1;
  item.opcode = static_cast<uint16_t>(find_opcode(version_, "JUMP_BACKWARD"));
  append(item);
}

uint32_t Layout::target_item(Label label) const { return item_of_source_[source_.label_items_[label.index()]]; }

void Layout::recompute_offsets() {
  offsets_.resize(items_.size() + 1);
  uint32_t at = 0;
  for (size_t i = 0; i < items_.size(); ++i) {
    offsets_[i] = at;
    at += prefixes_[i] + 1u + table_[items_[i].opcode].caches;
  }
  offsets_.back() = at;
}

uint32_t Layout::jump_argument(size_t i) const {
  const OpcodeInfo& info = table_[items_[i].opcode];
  uint32_t target = skip_targets_[i] >= 0 ? static_cast<uint32_t>(skip_targets_[i]) : target_item(items_[i].target);
  if (info.op == SimOp::kForIter && traits_.end_for_instructions) {
    // CPython's target is the END_FOR that the exhausted loop skips.
    target -= traits_.end_for_instructions;
    FJ_CHECK(table_[items_[target].opcode].op == SimOp::kEndFor, "no END_FOR before the target of a loop");
  }
  const uint32_t next = offsets_[i] + prefixes_[i] + 1u + info.caches;
  const uint32_t units = info.kind == ArgKind::kJumpAbs   ? offsets_[target]
                         : info.kind == ArgKind::kJumpRel ? offsets_[target] - next
                                                          : next - offsets_[target];
  return units * 2 / traits_.jump_unit;
}

// Arguments only ever grow, so this ends.
void Layout::place_items() {
  prefixes_.assign(items_.size(), 0);
  for (size_t i = 0; i < items_.size(); ++i) {
    if (!items_[i].target.valid()) prefixes_[i] = prefixes_for(items_[i].arg);
  }
  for (bool grew = true; grew;) {
    grew = false;
    recompute_offsets();
    for (size_t i = 0; i < items_.size(); ++i) {
      if (!items_[i].target.valid()) continue;
      const uint8_t needed = prefixes_for(jump_argument(i));
      if (needed <= prefixes_[i]) continue;
      prefixes_[i] = needed;
      grew = true;
    }
  }
}

std::string Layout::write_code() const {
  const int extended_arg = find_opcode(version_, "EXTENDED_ARG");
  std::string code;
  code.reserve(offsets_.back() * 2);
  const auto unit = [&](int opcode, uint32_t arg) {
    code.push_back(static_cast<char>(opcode));
    code.push_back(static_cast<char>(arg & 0xff));
  };
  for (size_t i = 0; i < items_.size(); ++i) {
    const uint32_t arg = items_[i].target.valid() ? jump_argument(i) : items_[i].arg;
    for (int prefix = prefixes_[i]; prefix > 0; --prefix) unit(extended_arg, arg >> (8 * prefix));
    unit(items_[i].opcode, arg);
    for (int cache = 0; cache < table_[items_[i].opcode].caches; ++cache) unit(0, 0);
  }
  return code;
}

std::string Layout::write_positions() const {
  std::vector<Position> units;
  units.reserve(offsets_.back());
  for (size_t i = 0; i < items_.size(); ++i) units.resize(offsets_[i + 1], items_[i].position);
  return write_line_table(traits_.line_format, units, source_.base_.first_line);
}

std::string Layout::write_regions() const {
  std::vector<ExceptionEntry> entries;
  for (size_t start = 0; start < items_.size();) {
    const int32_t region = items_[start].region;
    size_t end = start + 1;
    while (end < items_.size() && items_[end].region == region) ++end;
    if (region != kNoRegion) {
      const RegionSpec& spec = source_.regions_[region];
      entries.push_back(
          {offsets_[start], offsets_[end], offsets_[target_item(spec.handler)], spec.depth, spec.push_lasti});
    }
    start = end;
  }
  return write_exception_table(entries);
}

OffsetMap Layout::write_offsets() const {
  OffsetMap map;
  for (size_t i = 0; i < items_.size(); ++i)
    if (items_[i].context.index() < source_.base_.size())
      map.add(offsets_[i] + prefixes_[i], source_.base_.at(items_[i].context).offset, items_[i].origin.valid());
  return map;
}

// Decoding what was written both measures the stack and checks the result.
int32_t Layout::measure_stack(const AssembledCode& assembled) const {
  RawCode raw;
  raw.version = version_;
  raw.code = assembled.code;
  raw.exception_table = assembled.exception_table;
  raw.local_count = source_.base_.local_count;
  raw.slots = source_.base_.slots;
  Decoded decoded;
  decode_bytes(raw, decoded);
  return decoded.max_depth;
}

}  // namespace framejit::bytecode
