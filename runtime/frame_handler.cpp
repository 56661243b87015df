#include "runtime/frame_handler.h"

#include <map>

#include "eval_frame/hook.h"
#include "runtime/call/bind.h"
#include "runtime/call/resume.h"
#include "runtime/call/run_entry.h"
#include "runtime/call/thread_state.h"
#include "runtime/report/log.h"
#include "tracer/frame_builtins.h"
#include "tracer/introspection.h"

namespace framejit::runtime {
namespace {

// Code that was captured this often without a single operator is plain Python: it is left alone.
constexpr int kIdleCaptures = 2;

CodeMark classify(PyObject* code) {
  CodeMark mark = engine().is_skipped(code) ? CodeMark::kSkipped : CodeMark::kUser;
  if (mark == CodeMark::kUser && engine().code_info(code)->layout.why_not_twin()) mark = CodeMark::kSkipped;
  if (engine().everything && walks_the_collectors_objects(*engine().code_info(code)->decoded))
    mark = CodeMark::kUnhooked;
  set_code_mark(code, mark);
  return mark;
}

// Of a frame that is not for capture.
int answer_to(CodeMark mark) { return mark == CodeMark::kUnhooked ? 2 : 0; }

template <class See>
void each_entry(const CodeCache& cache, const See& see) {
  for (const auto& [at, segment] : cache.segments())
    for (const auto& entry : segment->entries()) see(*entry);
}

bool has_operators(const CodeCache& cache) {
  bool found = false;
  each_entry(cache, [&](const CompiledEntry& entry) { found = found || entry.op_count() != 0; });
  return found;
}

// The functions that its captures went through have been captured as often without an operator: else the hook would
// find them new once the interpreter calls them.
void give_up_if_idle(PyObject* code, const CodeCache& cache) {
  if (has_operators(cache)) return;
  int idle = 0;
  std::map<PyObject*, int> idle_callees;
  each_entry(cache, [&](const CompiledEntry& entry) {
    ++idle;
    for (graph::ConstId id : entry.capture().callees) ++idle_callees[entry.objects().at(id)];
  });
  if (idle < kIdleCaptures) return;
  set_code_mark(code, CodeMark::kGivenUp);
  for (auto [callee, times] : idle_callees) {
    const CodeMark* mark = code_mark(callee);
    if (times < kIdleCaptures || (mark ? *mark : classify(callee)) != CodeMark::kUser) continue;
    if (!has_operators(*engine().shared_cache(callee))) set_code_mark(callee, CodeMark::kGivenUp);
  }
}

class HookedFrame {
 public:
  explicit HookedFrame(const FrameView& view)
      : view_(view), code_(reinterpret_cast<PyObject*>(view.code)), cache_(engine().shared_cache(code_)) {}

  // As FramejitFrameHandler.
  int run(PyObject** result) {
    if (view_.builtins != own_builtins()) return 0;  // entries may have been captured for another frame of the code
    note_reached(cache_);
    Segment& segment = cache_->entry_segment();
    if (segment.eager() && segment.entries().empty()) return 0;
    ArgumentBinder binder(cache_->decoded());
    std::vector<PyObject*> slots(binder.slot_count());
    BoundObjects objects;
    if (!binder.bind_frame(view_, slots.data(), objects)) {
      PyErr_Clear();
      return 0;
    }
    OwnedValues owned;
    FoundEntry found = find_or_capture(*cache_, segment, {slots.data(), nullptr}, owned, [&] {
      SegmentStart start;
      start.code = cache_->decoded_ptr();
      start.at = segment.at();
      start.globals = view_.globals;
      start.builtins = view_.builtins;
      start.function = view_.function;
      start.slots = slots.data();
      return start;
    });
    if (found.error) return 1;
    if (!found.entry || !found.entry->returns()) owned.clear();
    if (found.captured && !engine().everything) give_up_if_idle(code_, *cache_);
    if (!found.entry) return 0;
    if (!found.entry->returns()) return run_twin(binder, result);
    if (found.entry->nothing()) return 0;
    *result = run_to_return(*found.entry);
    return *result != nullptr || PyErr_Occurred() != nullptr;
  }

 private:
  int run_twin(const ArgumentBinder& binder, PyObject** result) {
    Ref code = cache_->twin();
    Ref function = code ? Ref::steal(PyFunction_New(code.get(), view_.globals)) : nullptr;
    Ref closure = function ? this->closure() : nullptr;
    std::vector<PyObject*> values;
    Ref kwnames;
    if (!function || (closure && PyFunction_SetClosure(function.get(), closure.get()) < 0) ||
        !binder.unbind_frame(view_, &values, &kwnames)) {
      PyErr_Clear();
      return 0;
    }
    const size_t keywords = kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames.get())) : 0;
    TwinScope scope(PyThreadState_Get());
    scope.want_hook();
    *result =
        finish_frame(_PyObject_Vectorcall(function.get(), values.data(), values.size() - keywords, kwnames.get()));
    code = nullptr;
    drop_code(std::move(function));
    return 1;
  }

  Ref closure() const {
    if (view_.closure) return Ref::borrow(view_.closure);
    const bytecode::DecodedCode& code = cache_->decoded();
    if (code.free_count == 0) return nullptr;
    Ref closure = Ref::steal(PyTuple_New(code.free_count));
    Py_ssize_t next = 0;
    for (size_t i = 0; closure && i < code.slots.size(); ++i)
      if (code.slots[i].is_free) {
        Py_INCREF(view_.localsplus[i]);
        PyTuple_SET_ITEM(closure.get(), next++, view_.localsplus[i]);
      }
    return closure;
  }

  const FrameView& view_;
  PyObject* code_;
  std::shared_ptr<CodeCache> cache_;
};

int handle_frame(FramejitFrameView* view, PyObject** result, void*) {
  PyObject* code = reinterpret_cast<PyObject*>(view->code);
  if (thread_state().gate != GateState::kNone) return answer_at_gate(*view);
  if (code == thread_state().eager_code) {
    thread_state().eager_code = nullptr;
    return 0;
  }
  const CodeMark* mark = code_mark(code);
  if (mark && *mark != CodeMark::kUser) return answer_to(*mark);
  *result = nullptr;
  try {
    if (const CodeMark found = mark ? *mark : classify(code); found != CodeMark::kUser) return answer_to(found);
    PyThreadState* const tstate = PyThreadState_Get();
    if (must_run_eagerly(tstate) || framejit_recursion_left(tstate) <= 0) return 0;
    // What the collector runs is no part of the call during which it happens to work.
    if (!engine().everything && framejit_is_collecting(tstate)) return 0;
    if (engine().everything && framejit_code_warms_up(view->code)) return 0;
    return HookedFrame(*view).run(result);
  } catch (const std::exception& error) {
    set_code_mark(code, CodeMark::kGivenUp);
    ++engine().stats.fallbacks;
    return report_internal_error(error.what()) ? 1 : 0;
  }
}

}  // namespace

void install_frame_handler() { framejit_hook_set_handler({&handle_frame, nullptr}); }

}  // namespace framejit::runtime
