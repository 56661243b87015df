// The assembler's back half: from items with labels to bytes and tables.
#pragma once

#include <vector>

#include "bytecode/assembler.h"
#include "bytecode/opcode_table.h"

namespace framejit::bytecode {

// One use. The order of items is fixed, so the direction of each jump is known before any size is.
class Layout {
 public:
  explicit Layout(const Assembler& source);
  AssembledCode run();

 private:
  using Item = Assembler::Item;

  void lower_items();
  void lower_jump(Item item, size_t source_index);
  void append(const Item& item);
  bool fuse_pair(size_t source_index);
  int find_variant(const OpcodeInfo& info, ArgKind kind, uint8_t aux) const;
  void find_used_labels();

  void place_items();
  void recompute_offsets();
  uint32_t target_item(Label label) const;
  uint32_t jump_argument(size_t index) const;

  std::string write_code() const;
  std::string write_positions() const;
  std::string write_regions() const;
  OffsetMap write_offsets() const;
  int32_t measure_stack(const AssembledCode& code) const;

  const Assembler& source_;
  const Version version_;
  const VersionTraits& traits_;
  const OpcodeTable& table_;
  std::vector<Item> items_;               // lowered
  std::vector<uint32_t> item_of_source_;  // source item -> lowered item, one more than items at the end
  std::vector<int32_t> skip_targets_;     // per lowered item: lowered index it jumps to, where lowering decided it
  std::vector<bool> used_labels_;
  std::vector<uint32_t> offsets_;  // code units, first unit of each item, and the end
  std::vector<uint8_t> prefixes_;  // EXTENDED_ARGs of each item
};

}  // namespace framejit::bytecode
