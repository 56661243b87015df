#include "runtime/call/static_call.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "runtime/call/resume.h"
#include "runtime/call/shadow.h"
#include "runtime/call/thread_state.h"
#include "runtime/report/log.h"
#include "tracer/frame_builtins.h"

namespace framejit::runtime {

void release_state(StaticFunctionState* state) {
  if (--state->holders != 0) return;
  std::shared_ptr<CodeCache> cache = std::move(state->cache);
  delete state;
  if (cache) cache->dispose();
}

PyObject* StaticCall::run() {
  if (engine().shadow_every != 0 && shadow_is_due(self_)) [[unlikely]] {
    Ref result;
    const ShadowAnswer answer = run_shadowed(self_, args_, nargs_, kwnames_, &result);
    if (answer != ShadowAnswer::kNotRun) return result.release();
  }
  return run_compiled();
}

PyObject* StaticCall::run_compiled() {
  if (must_run_eagerly(PyThreadState_Get()))
    return _PyObject_Vectorcall(self_.callable, args_, static_cast<size_t>(nargs_), kwnames_);
  return self_.bound_self ? run_with_self() : dispatch();
}

// The same call with the method's self in front.
PyObject* StaticCall::run_with_self() {
  const Py_ssize_t given = nargs_ + (kwnames_ ? PyTuple_GET_SIZE(kwnames_) : 0);
  PyObject* few[kSlotsOnStack];
  std::vector<PyObject*> many;
  PyObject** all = few;
  if (static_cast<size_t>(given) >= kSlotsOnStack) {
    many.resize(static_cast<size_t>(given) + 1);
    all = many.data();
  }
  all[0] = self_.bound_self;
  std::copy(args_, args_ + given, all + 1);
  args_ = all;
  ++nargs_;
  return dispatch();
}

PyObject* StaticCall::dispatch() {
  if (!ready()) return PyErr_Occurred() ? nullptr : run_original(false);
  if (!state_->cache) return run_original(true);
  const auto& entries = state_->entry->entries();
  if (!entries.empty() && !entries.front()->returns()) return run_twin();
  PyObject* few[kSlotsOnStack];
  if (state_->binder.slot_count() <= kSlotsOnStack) return run_bound(few);
  std::vector<PyObject*> many(state_->binder.slot_count());
  return run_bound(many.data());
}

// False: the code cannot be looked into, it runs eagerly.
bool StaticCall::ready() {
  PyObject* code = PyFunction_GET_CODE(self_.function);
  const bool current = self_.state && self_.state->code.get() == code;
  if (!current && !make_state(code)) return false;
  state_.hold(self_.state);
  return true;
}

bool StaticCall::make_state(PyObject* code) {
  if (Engine::runs_eagerly(self_.function)) return false;
  std::unique_ptr<StaticFunctionState> state;
  try {
    state = std::make_unique<StaticFunctionState>(code);
  } catch (const std::exception& error) {
    ++engine().stats.fallbacks;
    report_internal_error(error.what());
    return false;
  }
  if (!state->info->layout.why_not_twin() && !state->info->layout.why_not_site(state->info->layout.body_start())) {
    state->cache = std::make_shared<CodeCache>(state->info, self_.backend);
    state->cache->set_whole(self_.full_graph);
    state->entry = &state->cache->entry_segment();
    engine().add_owned_cache(state->cache);
  }
  StaticFunctionState* old = std::exchange(self_.state, state.release());
  if (old) release_state(old);
  return true;
}

SegmentStart StaticCall::start(PyObject** slots) const {
  SegmentStart start;
  start.code = state_->info->decoded;
  start.at = state_->entry->at();
  start.globals = PyFunction_GET_GLOBALS(self_.function);
  start.builtins = builtins_of_call(self_.function);
  start.function = self_.function;
  start.slots = slots;
  return start;
}

PyObject* StaticCall::run_bound(PyObject** slots) {
  BoundObjects objects;
  if (!state_->binder.bind(function(), args_, nargs_, kwnames_, slots, objects))
    return PyErr_Occurred() ? nullptr : run_original(false);
  OwnedValues owned;
  std::shared_ptr<CodeCache> cache = state_->cache;
  FoundEntry found = find_or_capture(*cache, *state_->entry, {slots, nullptr}, owned, [&] { return start(slots); });
  if (found.error) return nullptr;
  if (self_.full_graph && breaks_full_graph(found)) return nullptr;
  if (!found.entry || !found.entry->returns()) owned.clear();
  return run_found(std::move(found));
}

PyObject* StaticCall::run_found(FoundEntry found) {
  if (!found.entry) return run_original(true);
  if (!found.entry->returns()) return run_twin();
  if (found.entry->nothing()) return run_original(false);
  PyObject* result = run_to_return(*found.entry);
  return result || PyErr_Occurred() ? result : run_original(false);
}

bool StaticCall::breaks_full_graph(const FoundEntry& found) {
  const bool refused = !found.entry && found.stop.reason == StopReason::kActiveMode;
  if ((!found.captured && !refused) || (found.entry && found.entry->returns())) return false;
  if (found.stop.reason == StopReason::kUncaughtException) return false;  // the user's own error says more
  const StopReasonInfo& reason = stop_reason_info(found.stop.reason);
  std::string text =
      fmt::format("{}: {}", found.stop.location.empty() ? "full_graph=True" : found.stop.location, reason.text);
  if (!found.stop.detail.empty()) text += " (" + found.stop.detail + ")";
  if (*reason.hint) text += fmt::format("; {}", reason.hint);
  if (found.entry) state_->entry->remove(found.entry.get());
  PyErr_SetString(graph_break_error_type(), text.c_str());
  return true;
}

// The function itself, with the frames that it calls offered to the hook.
PyObject* StaticCall::run_original(bool hook) {
  TwinScope scope(PyThreadState_Get(), state_ ? state_->cache.get() : nullptr);
  if (hook) scope.want_hook();
  thread_state().eager_code = PyFunction_GET_CODE(self_.function);
  PyObject* result = _PyObject_Vectorcall(self_.function, args_, static_cast<size_t>(nargs_), kwnames_);
  thread_state().eager_code = nullptr;
  return result;
}

// Defaults may change at any time, the rest of a function's signature is its code.
bool StaticCall::sync_twin_function() {
  Ref code = state_->cache->twin();
  if (!code) return false;
  Ref& twin = state_->twin_function;
  PyFunctionObject* original = function();
  if (!twin || PyFunction_GET_CODE(twin.get()) != code.get()) {
    twin = Ref::steal(PyFunction_NewWithQualName(code.get(), original->func_globals, original->func_qualname));
    if (!twin) return false;
    if (original->func_closure && PyFunction_SetClosure(twin.get(), original->func_closure) < 0) return false;
  }
  auto* made = reinterpret_cast<PyFunctionObject*>(twin.get());
  PyObject* defaults = original->func_defaults ? original->func_defaults : Py_None;
  PyObject* kwdefaults = original->func_kwdefaults ? original->func_kwdefaults : Py_None;
  if (made->func_defaults != original->func_defaults && PyFunction_SetDefaults(twin.get(), defaults) < 0) return false;
  return made->func_kwdefaults == original->func_kwdefaults || PyFunction_SetKwDefaults(twin.get(), kwdefaults) == 0;
}

PyObject* StaticCall::run_twin() {
  bool made = false;
  try {
    made = sync_twin_function();
  } catch (const std::exception& error) {
    ++engine().stats.fallbacks;
    if (report_internal_error(error.what())) return nullptr;
  }
  if (!made) {
    if (PyErr_Occurred()) return nullptr;
    state_->cache = nullptr;
    return run_original(true);
  }
  Ref twin = state_->twin_function;
  TwinScope scope(PyThreadState_Get(), state_->cache.get());
  PyObject* result = finish_frame(_PyObject_Vectorcall(twin.get(), args_, static_cast<size_t>(nargs_), kwnames_));
  drop_code(std::move(twin));
  return result;
}

}  // namespace framejit::runtime
