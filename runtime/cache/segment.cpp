#include "runtime/cache/segment.h"

#include <algorithm>

namespace framejit::runtime {

Segment::~Segment() {
  for (const auto& entry : entries_) entry->forget_segment();
}

size_t Segment::place_of(const CompiledEntry* entry) const {
  return std::find_if(entries_.begin(), entries_.end(), [&](const auto& e) { return e.get() == entry; }) -
         entries_.begin();
}

void Segment::move_to_front(size_t i) {
  const auto begin = entries_.begin();
  std::rotate(begin + first_of_kind(i), begin + i, begin + i + 1);
}

void Segment::add(std::shared_ptr<CompiledEntry> entry) {
  entries_.insert(entries_.begin() + kept_first_, std::move(entry));
}

void Segment::keep_first(const CompiledEntry* entry) {
  const size_t i = place_of(entry);
  if (i < kept_first_ || i == entries_.size()) return;
  move_to_front(i);
  ++kept_first_;
  passed_by_ = 0;
}

void Segment::drop_passed_by() {
  const std::vector<std::shared_ptr<CompiledEntry>> kept(entries_.begin(), entries_.begin() + kept_first_);
  for (const auto& entry : kept)
    if (entry->hits == 0) remove(entry.get());
}

void Segment::remove(CompiledEntry* entry) {
  const size_t i = place_of(entry);
  if (i == entries_.size()) return;
  if (i < kept_first_) --kept_first_;
  std::shared_ptr<CompiledEntry> keep = std::move(entries_[i]);  // its objects go last, with the list already whole
  entries_.erase(entries_.begin() + i);
  keep->forget_segment();
}

void Segment::lose(CompiledEntry* entry) {
  wasted_ = entry->hits == 0 ? wasted_ + 1 : 0;
  remove(entry);
}

void Segment::clear() {
  eager_ = refused_ = behind_changing_number_ = false;
  wasted_ = 0;
  changing_.clear();
  auto entries = std::move(entries_);
  entries_.clear();
  kept_first_ = passed_by_ = 0;
  for (const auto& entry : entries) entry->forget_segment();
}

}  // namespace framejit::runtime
