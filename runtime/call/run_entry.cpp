#include "runtime/call/run_entry.h"

#include "base/check.h"
#include "eval_frame/hook.h"
#include "runtime/call/shadow.h"
#include "runtime/call/thread_state.h"
#include "runtime/report/explain.h"
#include "runtime/report/log.h"

namespace framejit::runtime {
namespace {

constexpr size_t kOutputsOnStack = 32;

// Outputs of one run of a graph.
class Outputs {
 public:
  explicit Outputs(size_t count) : count_(count) {
    if (count > kOutputsOnStack) many_.resize(count);
  }
  PyObject** data() { return count_ > kOutputsOnStack ? many_.data() : few_; }
  size_t size() const { return count_; }

 private:
  size_t count_;
  PyObject* few_[kOutputsOnStack];
  std::vector<PyObject*> many_;
};

bool run_graph(CompiledEntry& entry, PyObject** outputs) {
  const RunStatus status = entry.run_graph(outputs);
  if (status == RunStatus::kUndone) PyErr_Clear();
  return status == RunStatus::kDone;
}

FoundEntry check_new_entry(Segment& segment, CaptureOutcome outcome, const FrameInputs& inputs, OwnedValues& owned) {
  FoundEntry found{std::move(outcome.entry), outcome.python_error, std::move(outcome.stop), true};
  if (!found.entry) return found;
  inputs.global_state.reset();  // code has run since
  // Dead: an object that it is guarded by lived no longer than the capture. Its guards would read what has been freed.
  if (!found.entry->dead() && found.entry->guards().check(inputs, owned) == GuardAnswer::kHit) return found;
  if (found.entry->dead()) {
    segment.remove(found.entry.get());
    found.entry = nullptr;
    return found;
  }
  const std::string what =
      "a guard does not hold right after its capture: " + describe_failed_guard(*found.entry, inputs, nullptr);
  segment.remove(found.entry.get());
  segment.set_eager({StopReason::kUnsupportedValue, what, ""});
  found.entry = nullptr;
  ++engine().stats.fallbacks;
  found.error = report_internal_error(what);
  return found;
}

// A capture makes many objects, so the collector runs, and its callbacks may need calls of their own. Before 3.10 an
// error that the interpreter drops there passes for the one that ends the recursion: it goes on, and the process dies.
bool has_room_to_capture() {
  constexpr int kLevels = 20;
  return framejit_recursion_left(PyThreadState_Get()) > kLevels;
}

}  // namespace

bool must_run_eagerly(PyThreadState* tstate) {
  return !engine().enabled || !engine().tensors() || is_capturing() || framejit_is_traced(tstate) ||
         (engine().shadow_every != 0 && in_eager_shadow()) ||
         (engine().graph_guards != 0 && thread_state().graph_guards != 0);
}

FoundEntry refuse(const CodeCache& cache, Segment& segment, StopReason reason, std::string why) {
  ++engine().stats.breaks;
  ++engine().stats.break_reasons[stop_reason_info(reason).name];
  FoundEntry found;
  found.stop = {reason, std::move(why), stop_location(cache.decoded(), segment.at())};
  segment.set_refused(found.stop);
  return found;
}

FoundEntry find_or_capture(CodeCache& cache, Segment& segment, const FrameInputs& inputs, OwnedValues& owned,
                           const std::function<SegmentStart()>& start) {
  bool busy = false;
  if (std::shared_ptr<CompiledEntry> entry = segment.find(inputs, owned, &busy)) {
    ++entry->hits;
    ++engine().stats.hits;
    return {std::move(entry)};
  }
  if (busy || segment.eager() || !has_room_to_capture()) return {};
  if (const char* why = engine().tensors()->why_not_now()) return refuse(cache, segment, StopReason::kActiveMode, why);
  ++engine().stats.misses;
  if (!engine().on_capture) return check_new_entry(segment, capture(cache, segment, start()), inputs, owned);
  const std::string missed = describe_miss(cache, segment, inputs);
  CaptureOutcome outcome = capture(cache, segment, start());
  const std::shared_ptr<CompiledEntry> entry = outcome.entry;  // it may be dropped while it is checked
  FoundEntry found = check_new_entry(segment, std::move(outcome), inputs, owned);
  if (!found.error) report_capture(cache, segment, entry.get(), missed);
  return found;
}

bool run_and_apply(CompiledEntry& entry, Replay& replay) {
  Outputs outputs(entry.output_count());
  if (!run_graph(entry, outputs.data())) return false;
  replay.set_outputs(outputs.data(), outputs.size());
  return replay.apply_effects();
}

PyObject* run_to_return(CompiledEntry& entry) {
  const int only = entry.replay().only_output();
  if (only >= 0 && entry.output_count() == 1) {
    PyObject* output = nullptr;
    return run_graph(entry, &output) ? output : nullptr;
  }
  Replay replay(entry.replay(), entry.guards());
  if (!run_and_apply(entry, replay)) return nullptr;
  Ref value = replay.build(entry.capture().returned);
  if (!value) FJ_CHECK(PyErr_Occurred(), "the returned value is unbound");
  return value.release();
}

}  // namespace framejit::runtime
