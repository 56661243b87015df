// Segment: what was captured from one instruction of one code object, entry by entry.
#pragma once

#include <memory>
#include <vector>

#include "bytecode/decoded.h"
#include "runtime/cache/changing_paths.h"
#include "runtime/cache/compiled_entry.h"
#include "tracer/trace_stop.h"

namespace framejit::runtime {

class Segment {
 public:
  static constexpr size_t kMaxEntries = 16;
  // In a row, of those that an object of the program took with it before they served a second call.
  static constexpr size_t kMaxWasted = 64;
  // Calls that others serve, after which entries that look at a number that changes go if they have served none.
  static constexpr size_t kCallsToServe = 64;

  explicit Segment(bytecode::InstrIndex at) : at_(at) {}
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  bytecode::InstrIndex at() const { return at_; }
  // Those that look at a number that changes, then those that do not; of each, the most recently used first. Where one
  // of each fits, it is the same one in each call: the other would go on in other segments.
  const std::vector<std::shared_ptr<CompiledEntry>>& entries() const { return entries_; }

  // The entry whose guards hold, moved to the front of its kind; null: none. `busy` is set if that could not be found
  // out. A check may make objects, and so let the collector run code that drops entries: what is checked is held, and a
  // list that is another afterwards is not searched on.
  std::shared_ptr<CompiledEntry> find(const FrameInputs& inputs, OwnedValues& owned, bool* busy) {
    for (size_t i = 0; i < entries_.size(); ++i) {
      std::shared_ptr<CompiledEntry> entry = entries_[i];
      if (entry->of_kept_frame() != inputs.kept) continue;
      const GuardAnswer answer = entry->guards().check(inputs, owned);
      if (i >= entries_.size() || entries_[i] != entry) [[unlikely]] {
        *busy = true;
        return nullptr;
      }
      if (answer == GuardAnswer::kBusy) *busy = true;
      if (answer != GuardAnswer::kHit) continue;
      if (i != first_of_kind(i)) move_to_front(i);
      if (i >= kept_first_ && kept_first_ > 0 && ++passed_by_ == kCallsToServe) [[unlikely]]
        drop_passed_by();
      return entry;
    }
    return nullptr;
  }
  void add(std::shared_ptr<CompiledEntry> entry);
  void remove(CompiledEntry* entry);
  // `entry` looks at a number that was not known to change.
  void keep_first(const CompiledEntry* entry);
  // Removes an entry that an object of the program took with it.
  void lose(CompiledEntry* entry);
  // As new.
  void clear();

  // As CodeCache::changing, of what lies on the operand stack.
  ChangingPaths& changing() { return changing_; }
  const ChangingPaths& changing() const { return changing_; }

  // An entry of another segment leaves to the interpreter what makes a number that changes, which goes on here.
  bool behind_changing_number() const { return behind_changing_number_; }
  void set_behind_changing_number() { behind_changing_number_ = true; }

  bool full() const { return entries_.size() >= kMaxEntries || wasted_ >= kMaxWasted; }
  bool wasteful() const { return wasted_ >= kMaxWasted; }
  // Captures no more: the instructions run as they are, unless an entry there is fits.
  bool eager() const { return eager_; }
  void set_eager(TraceStop why) {
    eager_ = true;
    why_eager_ = std::move(why);
  }
  const TraceStop& why_eager() const { return why_eager_; }
  // Ran eagerly under a state of the thread that forbids recording: another call may capture.
  bool refused() const { return refused_; }
  void set_refused(TraceStop why) {
    refused_ = true;
    if (!eager_) why_eager_ = std::move(why);
  }

 private:
  size_t place_of(const CompiledEntry* entry) const;
  size_t first_of_kind(size_t i) const { return i < kept_first_ ? 0 : kept_first_; }
  void move_to_front(size_t i);
  void drop_passed_by();

  bytecode::InstrIndex at_;
  std::vector<std::shared_ptr<CompiledEntry>> entries_;
  size_t kept_first_ = 0;  // how many look at a number that changes
  size_t passed_by_ = 0;   // calls that another has served since
  ChangingPaths changing_;
  size_t wasted_ = 0;
  bool behind_changing_number_ = false;
  bool eager_ = false;
  bool refused_ = false;
  TraceStop why_eager_;
};

}  // namespace framejit::runtime
