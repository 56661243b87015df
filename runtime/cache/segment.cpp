#include "runtime/cache/segment.h"

#include <algorithm>

namespace framejit::runtime {

Segment::~Segment() {
  for (const auto& entry : entries_) entry->forget_segment();
}

std::shared_ptr<CompiledEntry> Segment::find_slow(const FrameInputs& inputs, OwnedValues& owned, bool* busy) {
  const auto entries = entries_;
  for (const auto& entry : entries) {
    const GuardAnswer answer = entry->guards().check(inputs, owned);
    if (answer == GuardAnswer::kBusy) *busy = true;
    if (answer != GuardAnswer::kHit || entry->dead()) continue;
    if (auto found = std::find(entries_.begin(), entries_.end(), entry); found != entries_.end())
      std::rotate(entries_.begin(), found, found + 1);
    return entry;
  }
  return nullptr;
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
  eager_ = false;
  wasted_ = 0;
  auto entries = std::move(entries_);
  entries_.clear();
  for (const auto& entry : entries) entry->forget_segment();
}

}  // namespace framejit::runtime
