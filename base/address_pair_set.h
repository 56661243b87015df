// A set of pairs of addresses that is only added to, as one table with open addressing: a trace asks it for each
// attribute that it reads, thousands of times, where a node and a division for each would be felt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace framejit {

class AddressPairSet {
 public:
  // The first address is not null. False: the pair was there.
  bool insert(const void* first, const void* second) {
    if (4 * (count_ + 1) > 3 * table_.size()) grow();
    Pair& place = find({first, second});
    if (place.first) return false;
    place = {first, second};
    ++count_;
    return true;
  }
  size_t size() const { return count_; }

 private:
  using Pair = std::pair<const void*, const void*>;

  // Fibonacci hashing: the high bits of the product depend on all bits of both addresses.
  size_t slot(const Pair& pair) const {
    const auto first = reinterpret_cast<uintptr_t>(pair.first), second = reinterpret_cast<uintptr_t>(pair.second);
    return static_cast<size_t>(((first ^ (second << 21 | second >> 43)) * 0x9e3779b97f4a7c15u) >> shift_);
  }

  // Where the pair is, or the free place that it would take.
  Pair& find(const Pair& pair) {
    size_t i = slot(pair);
    while (table_[i].first && table_[i] != pair) i = (i + 1) & (table_.size() - 1);
    return table_[i];
  }

  void grow() {
    std::vector<Pair> old = std::move(table_);
    shift_ = old.empty() ? 64 - kFirstBits : shift_ - 1;
    table_.assign(size_t{1} << (64 - shift_), Pair{});
    for (const Pair& pair : old)
      if (pair.first) find(pair) = pair;
  }

  static constexpr int kFirstBits = 8;
  std::vector<Pair> table_;  // a power of two; free: the first address is null
  int shift_ = 0;
  size_t count_ = 0;
};

}  // namespace framejit
