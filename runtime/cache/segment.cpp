#include "runtime/cache/segment.h"

#include <algorithm>

namespace framejit::runtime {

Segment::~Segment() {
  for (const auto& entry : entries_) entry->forget_segment();
}

void Segment::move_to_front(size_t i) {
  const auto entry = entries_.begin() + static_cast<std::ptrdiff_t>(i);
  std::rotate(entries_.begin(), entry, entry + 1);
}

void Segment::add(std::shared_ptr<CompiledEntry> entry) { entries_.insert(entries_.begin(), std::move(entry)); }

void Segment::remove(CompiledEntry* entry) {
  auto found = std::find_if(entries_.begin(), entries_.end(), [&](const auto& e) { return e.get() == entry; });
  if (found == entries_.end()) return;
  std::shared_ptr<CompiledEntry> keep = std::move(*found);  // its objects go last, with the list already whole
  entries_.erase(found);
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
  for (const auto& entry : entries) entry->forget_segment();
}

}  // namespace framejit::runtime
