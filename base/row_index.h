// Which rows of a list are there already: an index beside a list of rows that is only added to, with open addressing.
// The hash of each row is kept, so that growing and most searches do not look at the rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace framejit {

class RowIndex {
 public:
  struct Found {
    uint32_t row;
    bool fresh;
  };

  // The row with this hash of which `is_equal(row)` holds, or, fresh, the row that comes next in the list.
  template <class IsEqual>
  Found add(uint64_t hash, IsEqual is_equal) {
    if (4 * (size_t{count_} + 1) > 3 * places_.size()) grow();
    const auto kept = static_cast<uint32_t>(hash);
    Place& place = places_[slot_of(kept, is_equal)];
    if (place.next) return {place.next - 1, false};
    place = {kept, ++count_};
    return {count_ - 1, true};
  }
  template <class IsEqual>
  bool contains(uint64_t hash, IsEqual is_equal) const {
    return !places_.empty() && places_[slot_of(static_cast<uint32_t>(hash), is_equal)].next;
  }

 private:
  struct Place {
    uint32_t hash;
    uint32_t next;  // row + 1; 0: free
  };

  size_t mask() const { return places_.size() - 1; }
  // Where the row is, or the free place that it would take.
  template <class IsEqual>
  size_t slot_of(uint32_t hash, IsEqual is_equal) const {
    size_t slot = hash & mask();
    while (places_[slot].next && !(places_[slot].hash == hash && is_equal(places_[slot].next - 1)))
      slot = (slot + 1) & mask();
    return slot;
  }
  void grow() {
    const std::vector<Place> old = std::move(places_);
    places_.assign(old.empty() ? 32 : 2 * old.size(), Place{});
    for (const Place& place : old) {
      if (place.next) places_[slot_of(place.hash, [](uint32_t) { return false; })] = place;
    }
  }

  std::vector<Place> places_;  // a power of two
  uint32_t count_ = 0;
};

}  // namespace framejit
