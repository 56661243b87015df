#include "runtime/call/resume.h"

#include "base/check.h"
#include "base/once.h"
#include "runtime/call/frame_writer.h"
#include "runtime/call/tracebacks.h"

namespace framejit::runtime {
namespace {

// The closure of the function that a frame runs: 3.11+ the function's, before that the cells in the frame itself.
Ref closure_of(const FrameView& view, const bytecode::DecodedCode& code) {
  if (view.closure) return Ref::borrow(view.closure);
  if (code.free_count == 0) return nullptr;
  Ref closure = Ref::steal(PyTuple_New(code.free_count));
  Py_ssize_t next = 0;
  for (size_t i = 0; closure && i < code.slots.size(); ++i)
    if (code.slots[i].is_free) {
      Py_INCREF(view.localsplus[i]);
      PyTuple_SET_ITEM(closure.get(), next++, view.localsplus[i]);
    }
  return closure;
}

// So that the function can be called without arguments.
bool set_defaults(const Ref& function, const bytecode::DecodedCode& code) {
  if (code.arg_count != 0) {
    Ref defaults = Ref::steal(PyTuple_New(code.arg_count));
    if (!defaults) return false;
    for (int i = 0; i < code.arg_count; ++i) PyTuple_SET_ITEM(defaults.get(), i, Ref::borrow(Py_None).release());
    if (PyFunction_SetDefaults(function.get(), defaults.get()) < 0) return false;
  }
  if (code.kwonly_arg_count == 0) return true;
  Ref defaults = Ref::steal(PyDict_New());
  for (int i = 0; i < code.kwonly_arg_count; ++i)
    if (!defaults || PyDict_SetItem(defaults.get(), code.slot_name(code.arg_count + i), Py_None) < 0) return false;
  return PyFunction_SetKwDefaults(function.get(), defaults.get()) == 0;
}

Ref resume_function(std::shared_ptr<CodeCache> cache, uint32_t exit, PyObject* globals, const Ref& closure) {
  Ref code = cache->resume_code(exit);
  if (!code) return nullptr;
  Ref function = Ref::steal(PyFunction_New(code.get(), globals));
  if (!function || (closure && PyFunction_SetClosure(function.get(), closure.get()) < 0)) return nullptr;
  return set_defaults(function, cache->decoded()) ? std::move(function) : nullptr;
}

PyObject* run_resume_code(const Ref& function, Transfer transfer) {
  TwinScope scope(PyThreadState_Get());
  if (transfer.wants_hook) scope.want_hook();
  transfer.frame = nullptr;
  transfer.code = PyFunction_GET_CODE(function.get());
  thread_state().push(std::move(transfer));
  return PyObject_CallFunctionObjArgs(function.get(), nullptr);
}

struct RestOfFrame {
  PyObject_HEAD Ref* function;
  Transfer* transfer;
};

void free_rest_of_frame(PyObject* self) {
  auto* rest = reinterpret_cast<RestOfFrame*>(self);
  delete rest->function;
  delete rest->transfer;
  Py_TYPE(self)->tp_free(self);
}

PyTypeObject* rest_of_frame_type() {
  static PyTypeObject type = [] {
    PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
    t.tp_name = "framejit.rest_of_frame";
    t.tp_basicsize = sizeof(RestOfFrame);
    t.tp_flags = Py_TPFLAGS_DEFAULT;
    t.tp_dealloc = free_rest_of_frame;
    return t;
  }();
  const bool ready = once_under_lock([] { return PyType_Ready(&type) == 0; });
  FJ_CHECK(ready, "cannot make the type of what is left of a frame");
  return &type;
}

}  // namespace

Ref rest_of_frame(const FrameView& view, Transfer transfer) {
  Ref closure = closure_of(view, transfer.cache->decoded());
  if (PyErr_Occurred()) return nullptr;
  Ref function = resume_function(transfer.cache, transfer.exit, view.globals, closure);
  if (!function) return nullptr;
  PyTypeObject* type = rest_of_frame_type();
  Ref made = Ref::steal(type->tp_alloc(type, 0));
  if (!made) return nullptr;
  auto* rest = reinterpret_cast<RestOfFrame*>(made.get());
  rest->function = new Ref(std::move(function));
  rest->transfer = new Transfer(std::move(transfer));
  return made;
}

PyObject* finish_frame(PyObject* returned) {
  while (returned && Py_TYPE(returned) == rest_of_frame_type()) {
    Ref held = Ref::steal(returned);
    auto* rest = reinterpret_cast<RestOfFrame*>(returned);
    Ref function = std::move(*rest->function);
    Transfer transfer = std::move(*rest->transfer);
    held = nullptr;
    returned = run_resume_code(function, std::move(transfer));
    drop_code(std::move(function));
  }
  show_own_code(returned);
  return returned;
}

PyObject* run_continuation(Continuation rest) {
  // Whether the call below will fail is asked before anything is made: see has_room_to_capture in run_entry.cpp.
  if (Py_EnterRecursiveCall("")) return nullptr;
  Py_LeaveRecursiveCall();
  const auto& frames = rest.entry->capture().frames;
  FJ_CHECK(rest.next_frame < frames.size() && !rest.frames.empty(), "a pending call without a callee");
  const graph::FrameExit& frame = frames[rest.next_frame];
  FrameValues values = std::move(rest.frames.back());
  rest.frames.pop_back();
  FJ_CHECK(PyFunction_Check(values.function.get()), "a callee that is no function");
  std::shared_ptr<CodeCache> cache = engine().shared_cache(values.code.get());
  const uint32_t exit = cache->exit_number({bytecode::InstrIndex(frame.instruction), frame.pending});
  note_reached(cache);

  Transfer transfer;
  transfer.locals = std::move(values.locals);
  transfer.slots = std::move(values.stack);
  Ref closure = Ref::borrow(PyFunction_GET_CLOSURE(values.function.get()));
  Ref globals = Ref::borrow(PyFunction_GET_GLOBALS(values.function.get()));
  Ref code = std::move(values.code);  // held as the frame holds it
  values = {};
  transfer.wants_hook = rest.entry->capture().may_reach_python;
  transfer.cache = cache;
  transfer.exit = exit;
  if (frame.pending) transfer.rest = {std::move(rest.entry), std::move(rest.frames), rest.next_frame + 1};
  Ref resumed = resume_function(cache, exit, globals.get(), closure);
  if (!resumed) return nullptr;
  PyObject* result = finish_frame(run_resume_code(resumed, std::move(transfer)));
  drop_code(std::move(resumed));
  return result;
}

}  // namespace framejit::runtime
