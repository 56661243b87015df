#include "bytecode/decoded.h"

#include <algorithm>

namespace framejit::bytecode {

bool SlotSet::unite(const SlotSet& other) {
  bool grew = false;
  for (size_t i = 0; i < words_.size(); ++i) {
    const uint64_t before = words_[i];
    words_[i] |= other.words_[i];
    grew |= words_[i] != before;
  }
  return grew;
}

bool SlotSet::intersect(const SlotSet& other) {
  bool shrank = false;
  for (size_t i = 0; i < words_.size(); ++i) {
    const uint64_t before = words_[i];
    words_[i] &= other.words_[i];
    shrank |= words_[i] != before;
  }
  return shrank;
}

SlotKind Decoded::slot_kind(InstrIndex i, size_t place) const {
  for (int32_t node = state(i).specials; node >= 0; node = specials_[node].below)
    if (static_cast<size_t>(specials_[node].place) == place) return specials_[node].kind;
  return SlotKind::kValue;
}

std::vector<SlotKind> Decoded::slot_kinds(InstrIndex i) const {
  const StaticState& at = state(i);
  std::vector<SlotKind> kinds(static_cast<size_t>(std::max(at.depth, 0)), SlotKind::kValue);
  for (int32_t node = at.specials; node >= 0; node = specials_[node].below) {
    kinds[specials_[node].place] = specials_[node].kind;
  }
  return kinds;
}

std::vector<int32_t> Decoded::null_slots(InstrIndex i) const {
  std::vector<int32_t> places;
  for (int32_t node = state(i).specials; node >= 0; node = specials_[node].below) {
    const SlotKind kind = specials_[node].kind;
    if (kind == SlotKind::kNull || kind == SlotKind::kMethod) places.push_back(specials_[node].place);
  }
  std::reverse(places.begin(), places.end());
  return places;
}

std::vector<Block> Decoded::blocks(InstrIndex i) const {
  std::vector<Block> blocks;
  for (int32_t node = state(i).blocks; node >= 0; node = blocks_[node].below) blocks.push_back(blocks_[node].block);
  std::reverse(blocks.begin(), blocks.end());
  return blocks;
}

const Position& Decoded::keywords_position(InstrIndex i) const {
  const auto found = std::lower_bound(keywords_positions_.begin(), keywords_positions_.end(), i.value,
                                      [](const auto& entry, uint32_t index) { return entry.first < index; });
  return found != keywords_positions_.end() && found->first == i.value ? found->second : at(i).position;
}

const Liveness& Decoded::liveness() const {
  if (!liveness_) liveness_ = std::make_shared<const Liveness>(compute_liveness(*this));
  return *liveness_;
}

}  // namespace framejit::bytecode
