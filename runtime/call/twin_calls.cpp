#include "runtime/call/twin_calls.h"

#include "base/check.h"
#include "base/once.h"
#include "runtime/cache/capture_driver.h"
#include "runtime/call/frame_writer.h"
#include "runtime/call/resume.h"
#include "runtime/call/run_entry.h"
#include "runtime/call/thread_state.h"
#include "runtime/call/tracebacks.h"
#include "runtime/report/log.h"
#include "tracer/introspection.h"

namespace framejit::runtime {
namespace {

using codegen::kAnswerFirstExit;
using codegen::kAnswerNothing;
using codegen::kAnswerReturn;

struct SiteObject {
  PyObject_HEAD vectorcallfunc call;
  std::shared_ptr<CodeCache>* cache;
  Segment* segment;
  size_t exit_count;
};

PyTypeObject type_with_vectorcall(const char* name, size_t size, size_t offset, destructor free) {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = name;
  type.tp_basicsize = static_cast<Py_ssize_t>(size);
  type.tp_flags = Py_TPFLAGS_DEFAULT | _Py_TPFLAGS_HAVE_VECTORCALL;
  type.tp_vectorcall_offset = static_cast<Py_ssize_t>(offset);
  type.tp_call = PyVectorcall_Call;
  type.tp_dealloc = free;
  return type;
}

// One call of a segment's site.
class SiteCall {
 public:
  SiteCall(SiteObject* site, const FrameView& view) : cache_(*site->cache), segment_(*site->segment), view_(view) {
    exit_count_ = site->exit_count;
  }

  PyObject* run() {
    if (!stands_as_described()) return nothing(true);
    unbind_methods(cache_->decoded(), segment_.at(), view_);
    const FrameHolder holder = frame_holder(view_, cache_->layout().depth(segment_.at()));
    kept_ = holder != FrameHolder::kNone;
    FrameInputs inputs{view_.localsplus, view_.stack};
    inputs.kept = kept_;
    OwnedValues owned;
    FoundEntry found = find_or_capture(*cache_, segment_, inputs, owned, [&] { return start(); });
    if (found.error) return nullptr;
    if (!found.entry) return nothing(true);
    entry_ = std::move(found.entry);
    // A twin that does not know the exit has no site behind it either: newer code goes on in its place.
    const bool known = entry_->returns() || entry_->exit < exit_count_;
    if (!known && !can_leave_frame(holder)) return leave_held_frame();
    if (known && goes_nowhere()) return nothing(entry_->capture().may_reach_python);
    replay_ = std::make_unique<Replay>(entry_->replay(), entry_->guards());
    if (!run_and_apply(*entry_, *replay_)) {
      if (!PyErr_Occurred()) return nothing(true);
      if (thread_state().scope) thread_state().scope->hide_next_line();
      return nullptr;
    }
    return entry_->returns() ? leave_by_return() : leave_by_exit();
  }

  PyObject* run_eagerly() {
    if (stands_as_described()) unbind_methods(cache_->decoded(), segment_.at(), view_);
    return nothing(false);
  }

 private:
  bool stands_as_described() const {
    return cache_->decoded().stands_as_described(segment_.at(), static_cast<size_t>(view_.blocks),
                                                 [&](int32_t place) { return view_.stack[place] == nullptr; });
  }

  SegmentStart start() const {
    SegmentStart start;
    start.code = cache_->decoded_ptr();
    start.at = segment_.at();
    start.globals = view_.globals;
    start.builtins = view_.builtins;
    start.function = view_.function;
    start.slots = view_.localsplus;
    start.stack = view_.stack;
    start.stack_depth = static_cast<size_t>(cache_->layout().depth(segment_.at()));
    start.kept = kept_;
    return start;
  }

  // What a longer stretch left no trace of is not run again before a break: functions that it went through would be
  // captured. Before a return it is, as the frame shows where it ended.
  bool goes_nowhere() const {
    return entry_->nothing() &&
           (entry_->returns() || bytecode::InstrIndex(entry_->capture().frames[0].instruction) == segment_.at());
  }

  // Whether another frame can go on in its place.
  bool can_leave_frame(FrameHolder holder) {
    const bool others = holder == FrameHolder::kOthers || (kept_ && entry_->keeps_exceptions());
    if (!others) return true;
    if (looks_at_traced_frames(cache_->decoded())) return false;
    std::optional<std::vector<Ref>> holders = all_holders(view_);
    if (holders) holders_ = std::move(*holders);
    return holders.has_value();
  }

  // Whoever keeps the frame keeps its variables.
  PyObject* leave_held_frame() {
    refuse(*cache_, segment_, StopReason::kHeldFrame, "");
    return nothing(true);
  }

  PyObject* nothing(bool hook) {
    if (hook && thread_state().scope) thread_state().scope->want_hook();
    return PyLong_FromLong(kAnswerNothing);
  }

  PyObject* leave_by_return() {
    Ref value = replay_->build(entry_->capture().returned);
    if (!value) {
      FJ_CHECK(PyErr_Occurred(), "the returned value is unbound");
      return nullptr;
    }
    std::vector<std::pair<uint32_t, Ref>> locals;
    if (!build_locals(entry_->capture().kept_locals, *replay_, &locals)) return nullptr;
    for (uint32_t slot : entry_->capture().left_slots) framejit_slot_set(&view_.localsplus[slot], nullptr);
    write_locals(view_, locals);
    return leave_with(std::move(value));
  }

  PyObject* leave_with(Ref value) {
    if (!value) return nullptr;
    make_poppable(view_, 0, cache_->layout().depth(segment_.at()));
    move_handled_exception(view_, cache_->layout(), segment_.at(), {}, nullptr);
    Transfer transfer;
    transfer.value = std::move(value);
    transfer.frame = view_.frame;
    thread_state().push(std::move(transfer));
    return PyLong_FromLong(kAnswerReturn);
  }

  PyObject* leave_by_exit() {
    const std::vector<graph::FrameExit>& exits = entry_->capture().frames;
    std::vector<FrameValues> frames(exits.size());
    for (size_t i = 0; i < exits.size(); ++i) {
      FrameValues& values = frames[exits.size() - 1 - i];
      if (!build_frame(exits[i], *replay_, &values)) return nullptr;
      if (values.function) values.code = Ref::borrow(entry_->objects().at(exits[i].code));
      const CodeInfoPtr callee = i > 0 ? engine().code_info(values.code.get()) : nullptr;
      unbind_methods(callee ? *callee->decoded : cache_->decoded(), bytecode::InstrIndex(exits[i].instruction),
                     values.stack);
    }
    replay_ = nullptr;
    const bool pending = exits[0].pending;
    Transfer transfer;
    transfer.frame = view_.frame;
    transfer.locals = std::move(frames.back().locals);
    std::vector<Ref> stack = std::move(frames.back().stack);
    frames.pop_back();
    if (pending) transfer.rest = {entry_, std::move(frames), 1};
    if (entry_->exit >= exit_count_) {
      transfer.slots = std::move(stack);
      carry_untouched_locals(transfer.locals);
      transfer.holders = std::move(holders_);
      if (kept_) transfer.left_frame = Ref::borrow(framejit_frame_object(&view_));
      empty_locals();
      transfer.cache = cache_;
      transfer.exit = entry_->exit;
      transfer.wants_hook = entry_->capture().may_reach_python;
      return leave_with(rest_of_frame(view_, std::move(transfer)));
    }
    return restore(std::move(transfer), std::move(stack), pending);
  }

  // A traceback may keep this frame, and with it what the one that goes on in its place lets go of.
  void empty_locals() {
    const auto& slots = cache_->decoded().slots;
    for (size_t slot = 0; slot < slots.size(); ++slot)
      if (!slots[slot].is_cell && !slots[slot].is_free) framejit_slot_set(&view_.localsplus[slot], nullptr);
  }

  // An exit names only the slots that the segment changed; a new frame needs the others too.
  void carry_untouched_locals(std::vector<std::pair<uint32_t, Ref>>& locals) {
    std::vector<bool> named(static_cast<size_t>(view_.nlocalsplus), false);
    for (const auto& [slot, value] : locals) named[slot] = true;
    for (uint32_t slot = 0; slot < named.size(); ++slot)
      if (!named[slot]) locals.emplace_back(slot, Ref::borrow(view_.localsplus[slot]));
  }

  PyObject* restore(Transfer transfer, std::vector<Ref> stack, bool pending) {
    const codegen::ExitTarget& exit = cache_->exit(entry_->exit);
    const auto kept = static_cast<std::ptrdiff_t>(cache_->layout().kept_depth(segment_.at(), exit));
    FJ_CHECK(stack.size() == static_cast<size_t>(cache_->layout().exit_depth(exit)),
             "an exit restores {} stack slots, its instruction has {}", stack.size(),
             cache_->layout().exit_depth(exit));
    move_handled_exception(view_, cache_->layout(), segment_.at(), exit.at, &stack);
    transfer.slots.assign(std::make_move_iterator(stack.begin() + kept), std::make_move_iterator(stack.end()));
    transfer.first_slot = static_cast<int>(kept);
    stack.resize(static_cast<size_t>(kept));
    auto locals = std::move(transfer.locals);
    if (!transfer.slots.empty() || pending) thread_state().push(std::move(transfer));
    make_poppable(view_, static_cast<int>(kept), cache_->layout().depth(segment_.at()));
    write_stack(view_, 0, stack);
    write_locals(view_, locals);
    if (entry_->capture().may_reach_python && thread_state().scope) thread_state().scope->want_hook();
    return PyLong_FromLong(kAnswerFirstExit + static_cast<long>(entry_->exit));
  }

  std::shared_ptr<CodeCache> cache_;
  Segment& segment_;
  const FrameView& view_;
  size_t exit_count_;
  bool kept_ = false;         // the frame
  std::vector<Ref> holders_;  // of the frame
  std::shared_ptr<CompiledEntry> entry_;
  std::unique_ptr<Replay> replay_;
};

PyObject* call_site(PyObject* self, PyObject* const*, size_t, PyObject*) {
  FrameView view;
  if (framejit_current_frame(&view) < 0) return PyLong_FromLong(kAnswerNothing);
  try {
    SiteCall call(reinterpret_cast<SiteObject*>(self), view);
    return must_run_eagerly(PyThreadState_Get()) ? call.run_eagerly() : call.run();
  } catch (const std::exception& error) {
    raise_internal_error(error.what());
    return nullptr;
  }
}

void free_site(PyObject* self) {
  delete reinterpret_cast<SiteObject*>(self)->cache;
  Py_TYPE(self)->tp_free(self);
}

PyTypeObject* site_type() {
  static PyTypeObject type =
      type_with_vectorcall("framejit.segment", sizeof(SiteObject), offsetof(SiteObject, call), free_site);
  const bool ready = once_under_lock([] { return PyType_Ready(&type) == 0; });
  FJ_CHECK(ready, "cannot make the type of segment sites");
  return &type;
}

// ---- the others: one of each serves all twins ----

// Not a builtin function: the interpreter counts a call of one as a level of recursion, and the frames of pending calls
// run inside of run_pending.
struct StepObject {
  PyObject_HEAD vectorcallfunc call;
};

void free_step(PyObject* self) { Py_TYPE(self)->tp_free(self); }

Ref make_step(vectorcallfunc call) {
  static PyTypeObject type =
      type_with_vectorcall("framejit.step", sizeof(StepObject), offsetof(StepObject, call), free_step);
  const bool ready = once_under_lock([] { return PyType_Ready(&type) == 0; });
  FJ_CHECK(ready, "cannot make the type of the steps of twins");
  Ref made = Ref::steal(type.tp_alloc(&type, 0));
  FJ_CHECK(static_cast<bool>(made), "out of memory");
  reinterpret_cast<StepObject*>(made.get())->call = call;
  return made;
}

template <PyObject* (*body)(const FrameView&)>
PyObject* guarded(PyObject*, PyObject* const*, size_t, PyObject*) {
  try {
    FrameView view;
    FJ_CHECK(framejit_current_frame(&view) == 0, "no frame");
    return body(view);
  } catch (const std::exception& error) {
    raise_internal_error(error.what());
    return nullptr;
  }
}

PyObject* none() { Py_RETURN_NONE; }

PyObject* take(const FrameView& view) {
  ThreadState& state = thread_state();
  Transfer* transfer = state.find(view.frame, nullptr);
  FJ_CHECK(transfer, "nothing to take");
  if (transfer->value) {
    PyObject* value = transfer->value.release();
    state.pop();
    return value;
  }
  auto slots = std::move(transfer->slots);
  int first = transfer->first_slot;
  if (!transfer->rest.entry) state.pop();
  write_stack(view, first, slots);
  return none();
}

PyObject* run_pending(const FrameView& view) {
  ThreadState& state = thread_state();
  Transfer* transfer = state.find(view.frame, nullptr);
  FJ_CHECK(transfer && transfer->rest.entry, "no pending call");
  Continuation rest = std::move(transfer->rest);
  state.pop();
  return run_continuation(std::move(rest));
}

PyObject* resume_slot(const FrameView& view) {
  ThreadState& state = thread_state();
  Transfer* transfer = state.find(nullptr, reinterpret_cast<PyObject*>(view.code));
  FJ_CHECK(transfer, "resume code runs, but nothing resumes");
  move_tracebacks(*transfer);
  transfer->left_frame = nullptr;
  auto slots = std::move(transfer->slots);
  auto locals = std::move(transfer->locals);
  std::shared_ptr<CodeCache> cache = transfer->cache;
  const codegen::ExitTarget exit = cache->exit(transfer->exit);
  transfer->frame = view.frame;
  if (!transfer->rest.entry) state.pop();
  FJ_CHECK(slots.size() == static_cast<size_t>(cache->layout().exit_depth(exit)),
           "{} stack slots to resume at depth {}", slots.size(), cache->layout().exit_depth(exit));
  move_handled_exception(view, cache->layout(), cache->layout().body_start(), exit.at, &slots);
  write_stack(view, 0, slots);
  write_locals(view, locals);
  return none();
}

}  // namespace

const TwinCallables& twin_callables() {
  return once_under_lock([] {
    return TwinCallables{make_step(guarded<take>), make_step(guarded<run_pending>), make_step(guarded<resume_slot>)};
  });
}

Ref make_site(std::shared_ptr<CodeCache> cache, Segment* segment, size_t exit_count) {
  PyTypeObject* type = site_type();
  Ref made = Ref::steal(type->tp_alloc(type, 0));
  if (!made) return nullptr;
  auto* site = reinterpret_cast<SiteObject*>(made.get());
  site->call = call_site;
  site->cache = new std::shared_ptr<CodeCache>(std::move(cache));
  site->segment = segment;
  site->exit_count = exit_count;
  return made;
}

}  // namespace framejit::runtime
