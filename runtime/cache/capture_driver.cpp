#include "runtime/cache/capture_driver.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "eval_frame/hook.h"
#include "eval_frame/watch.h"
#include "runtime/cache/changing_numbers.h"
#include "runtime/cache/module_state.h"
#include "runtime/call/frame_gate.h"
#include "runtime/call/static_function.h"
#include "runtime/report/log.h"
#include "tracer/introspection.h"

namespace framejit::runtime {
namespace {

thread_local bool capturing = false;

class CapturingScope {
 public:
  CapturingScope() { capturing = true; }
  ~CapturingScope() {
    capturing = false;
    engine().stats.capture_s += seconds();
  }
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  HookPauseScope no_hook_;
};

bool runs_eagerly(PyObject* function) {
  if (Engine::runs_eagerly(function)) return true;
  return engine().everything && PyFunction_Check(function) &&
         framejit_code_warms_up(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function)));
}

TracerServices services_for(ObjectPool& pool, SourcePaths changing, SourcePaths inputs, bool numbers,
                            bool keeps_casts) {
  return {*engine().tensors(),
          pool,
          [](PyObject* code) { return engine().code_info(code)->decoded; },
          [](const bytecode::DecodedCode& code, bytecode::InstrIndex at, bool pending) {
            const codegen::TwinLayout& layout = engine().code_info(code.code)->layout;
            return !layout.why_not_twin() && !layout.why_not_exit({at, pending});
          },
          [](const bytecode::DecodedCode& code) { return !engine().code_info(code.code)->standard; },
          [](PyObject* callable) { return static_function_target(callable); },
          &runs_eagerly,
          [](PyObject* code) { return framejit_code_has_data_of_others(reinterpret_cast<PyCodeObject*>(code)) != 0; },
          &framejit_dict_is_of_text,
          frame_gate(),
          engine().notes_lines,
          std::move(changing),
          std::move(inputs),
          numbers,
          keeps_casts};
}

// A graph without operators needs no executable unless it hands its inputs on as outputs.
bool needs_executable(const graph::Capture& capture) {
  return capture.graph.live_node_count() != 0 || !capture.graph.outputs().empty();
}

bool is_frozen_backend(PyObject* backend) {
  return backend && PyUnicode_Check(backend) && PyUnicode_CompareWithASCIIString(backend, kFrozenBackend) == 0;
}

// What the interpreter does there makes a number of a number that changes, or of a tensor's data.
bool goes_on_with_changing_number(StopReason reason) {
  return reason == StopReason::kChangingNumber || reason == StopReason::kDataDependentValue;
}

bool stops_at_number(const graph::Capture& capture) {
  return capture.exit == graph::ExitKind::kBreak &&
         goes_on_with_changing_number(static_cast<StopReason>(capture.stop_reason));
}

codegen::ExitTarget exit_of(const graph::FrameExit& frame) {
  return {bytecode::InstrIndex(frame.instruction), frame.pending};
}

// Captures of one attempt, whose objects are in one pool.
bool end_alike(const graph::Capture& a, const graph::Capture& b, const ObjectPool& pool) {
  auto same_place = [&](const graph::FrameExit& x, const graph::FrameExit& y) {
    return x.instruction == y.instruction && pool.at(x.code) == pool.at(y.code);
  };
  return a.exit == b.exit && std::equal(a.frames.begin(), a.frames.end(), b.frames.begin(), b.frames.end(), same_place);
}

class Attempt {
 public:
  Attempt(const CapturingScope& scope, CodeCache& cache, Segment& segment, const SegmentStart& start)
      : scope_(scope), cache_(cache), segment_(segment), start_(start) {}

  CaptureOutcome run() {
    const bool at_start = start_.at == cache_.layout().body_start();
    if (auto stop = why_not_capturable(*start_.code, start_.at, at_start)) {
      outcome_.stop = std::move(*stop);
      return give_up();
    }
    std::unique_ptr<graph::Capture> capture = capture_with_inputs();
    if (!capture) capture = capture_taking(known_number_inputs(cache_, segment_));
    if (!capture) return give_up();
    std::unique_ptr<Executable> executable;
    if (needs_executable(*capture)) {
      std::string why_not;
      if (is_frozen_backend(cache_.backend())) capture->frozen_inputs = module_state(*capture, pool_);
      executable = engine().tensors()->compile(*capture, cache_.backend(), &why_not);
      if (!executable) return failed_to_compile(std::move(why_not));
    }
    file(std::move(capture), std::move(executable));
    return std::move(outcome_);
  }

 private:
  bool may_compute_numbers() const {
    return !engine().everything && (!cache_.backend() || PyUnicode_Check(cache_.backend()));
  }

  // Null: nothing can be captured, and why is in the outcome.
  std::unique_ptr<graph::Capture> capture_taking(SourcePaths inputs) {
    const bool numbers = may_compute_numbers();
    const SourcePaths changing = known_changing_numbers(cache_, segment_);
    if (numbers)
      inputs.insert(changing.begin(), changing.end());
    else
      inputs.clear();
    auto captured = capture_segment(
        start_, services_for(pool_, changing, std::move(inputs), numbers, is_frozen_backend(cache_.backend())));
    if (captured.ok()) return std::move(captured).value();
    outcome_.stop = captured.take_error();
    return nullptr;
  }

  // With floats that seem to change as inputs. Null: there are none, or it is better to guard their values.
  std::unique_ptr<graph::Capture> capture_with_inputs() {
    const SourcePaths known = known_number_inputs(cache_, segment_);
    SourcePaths found = find_number_inputs(cache_, segment_);
    SourcePaths inputs = known;
    inputs.insert(found.begin(), found.end());
    if (inputs.empty() || !may_compute_numbers()) return nullptr;
    std::unique_ptr<graph::Capture> capture = capture_taking(inputs);
    const SourcePaths by_value = capture ? guarded_by_value(*capture, pool_, inputs) : inputs;
    if (!by_value.empty()) {
      refuse_number_inputs(cache_, segment_, by_value);
      return capture_with_inputs();
    }
    if (stops_at_number(*capture)) {
      std::unique_ptr<graph::Capture> otherwise = capture_taking({});
      if (otherwise && !end_alike(*capture, *otherwise, pool_)) {
        refuse_number_inputs(cache_, segment_, inputs);
        return otherwise;
      }
      capture = capture_taking(inputs);  // what is compiled is what was recorded last
      if (!capture) return nullptr;
    }
    take_number_inputs(cache_, segment_, found);
    return capture;
  }

  // Nothing can be captured from here on: a break with no graph before it.
  CaptureOutcome give_up() {
    ++engine().stats.breaks;
    ++engine().stats.break_reasons[stop_reason_info(outcome_.stop.reason).name];
    segment_.set_eager(outcome_.stop);
    return std::move(outcome_);
  }

  CaptureOutcome failed_to_compile(std::string why_not) {
    outcome_.python_error = PyErr_Occurred() != nullptr;
    outcome_.stop = {StopReason::kOperatorFailed, std::move(why_not), ""};
    return give_up();
  }

  void file(std::unique_ptr<graph::Capture> capture, std::unique_ptr<Executable> executable) {
    count(*capture);
    outcome_.stop = {static_cast<StopReason>(capture->stop_reason), capture->stop_detail, capture->stop_location};
    auto entry =
        std::make_shared<CompiledEntry>(std::move(capture), pool_, engine().tensor_guards(), std::move(executable));
    if (!entry->returns()) {
      const auto& frames = entry->capture().frames;
      FJ_CHECK(!frames.empty(), "a break without a frame");
      entry->exit = cache_.exit_number(exit_of(frames[0]));
      if (goes_on_with_changing_number(outcome_.stop.reason)) note_changing_number(*entry);
    }
    entry->capture_s = scope_.seconds();
    CompiledEntry::watch_objects(entry, &segment_);
    segment_.add(entry);
    outcome_.entry = std::move(entry);
  }

  // For where the frame goes on that the interpreter gets back, and where those do that wait for it.
  void note_changing_number(const CompiledEntry& entry) {
    const auto& frames = entry.capture().frames;
    note_changing_number(cache_, exit_of(frames[0]));
    for (size_t i = 1; i < frames.size(); ++i)
      note_changing_number(*engine().shared_cache(entry.objects().at(frames[i].code)), exit_of(frames[i]));
  }

  static void note_changing_number(CodeCache& cache, const codegen::ExitTarget& exit) {
    for (bytecode::InstrIndex at : cache.layout().sites_after(exit)) cache.segment(at).set_behind_changing_number();
  }

  void count(const graph::Capture& capture) {
    Stats& stats = engine().stats;
    const size_t ops = capture.graph.live_node_count();
    ++stats.captures;
    stats.graphs += ops != 0;
    stats.ops += ops;
    if (capture.exit != graph::ExitKind::kBreak) return;
    ++stats.breaks;
    ++stats.break_reasons[stop_reason_info(static_cast<StopReason>(capture.stop_reason)).name];
  }

  const CapturingScope& scope_;
  CodeCache& cache_;
  Segment& segment_;
  const SegmentStart& start_;
  ObjectPool pool_;
  CaptureOutcome outcome_;
};

CaptureOutcome internal_failure(Segment& segment, const std::string& what) {
  CaptureOutcome outcome;
  outcome.stop = {StopReason::kUnsupportedValue, what, ""};
  segment.set_eager(outcome.stop);
  ++engine().stats.fallbacks;
  ++engine().stats.break_reasons["InternalError"];
  outcome.python_error = report_internal_error(what);
  return outcome;
}

}  // namespace

bool is_capturing() { return capturing; }

CaptureOutcome capture(CodeCache& cache, Segment& segment, const SegmentStart& start) {
  make_room_for_number_inputs(cache, segment);
  if (may_learn_changing_numbers(segment) && !cache.whole()) learn_changing_numbers(cache, segment);
  if (segment.full()) {
    const bool changes = !find_changing_numbers(segment).empty();
    const TraceStop stop{changes ? StopReason::kChangingNumber : StopReason::kUnsupportedValue,
                         "too many captures, and none fits", ""};
    segment.set_eager(stop);
    ++engine().stats.fallbacks;
    report_too_many_entries(cache, segment, {start.slots, start.stack, std::nullopt, start.kept});
    return {nullptr, stop, false};
  }
  CapturingScope scope;
  try {
    CaptureOutcome outcome = Attempt(scope, cache, segment, start).run();
    if (PyErr_Occurred() && !outcome.python_error) return internal_failure(segment, take_python_error());
    return outcome;
  } catch (const std::exception& error) {
    PyErr_Clear();
    return internal_failure(segment, error.what());
  }
}

}  // namespace framejit::runtime
