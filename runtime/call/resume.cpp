#include "runtime/call/resume.h"

#include "base/check.h"
#include "runtime/call/frame_writer.h"

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

PyObject* run_resume_code(const Ref& code, PyObject* globals, const Ref& closure, Transfer transfer) {
  Ref function = Ref::steal(PyFunction_New(code.get(), globals));
  if (!function || (closure && PyFunction_SetClosure(function.get(), closure.get()) < 0)) return nullptr;
  TwinScope scope(PyThreadState_Get());
  if (transfer.wants_hook) scope.want_hook();
  transfer.frame = nullptr;
  transfer.code = code.get();
  thread_state().push(std::move(transfer));
  // Resume code has the first parameter of the code that it stands for, or none.
  const bool takes_one = reinterpret_cast<PyCodeObject*>(code.get())->co_argcount != 0;
  return PyObject_CallFunctionObjArgs(function.get(), takes_one ? Py_None : nullptr, nullptr);
}

}  // namespace

PyObject* resume_frame(const FrameView& view, Transfer transfer) {
  std::shared_ptr<CodeCache> cache = transfer.cache;
  Ref code = cache->resume_code(transfer.exit);
  Ref closure = code ? closure_of(view, cache->decoded()) : nullptr;
  if (PyErr_Occurred()) return nullptr;
  return run_resume_code(code, view.globals, closure, std::move(transfer));
}

PyObject* run_continuation(Continuation rest) {
  const auto& frames = rest.entry->capture().frames;
  FJ_CHECK(rest.next_frame < frames.size(), "a pending call without a callee");
  const graph::FrameExit& frame = frames[rest.next_frame];
  const ConstTable& objects = rest.entry->objects();
  std::shared_ptr<CodeCache> cache = engine().shared_cache(objects.at(frame.code));
  const uint32_t exit = cache->exit_number({bytecode::InstrIndex(frame.instruction), frame.pending});
  Ref code = cache->resume_code(exit);
  if (!code) return nullptr;
  note_reached(cache);

  Transfer transfer;
  Ref function = rest.replay->build(frame.function);
  if (PyErr_Occurred() || !build_frame(frame, *rest.replay, &transfer.locals, &transfer.slots)) return nullptr;
  Ref closure;
  if (function && PyFunction_Check(function.get())) closure = Ref::borrow(PyFunction_GET_CLOSURE(function.get()));
  transfer.wants_hook = rest.entry->capture().may_reach_python;
  transfer.cache = cache;
  transfer.exit = exit;
  Ref globals = Ref::borrow(objects.at(frame.globals));
  if (frame.pending) transfer.rest = {std::move(rest.entry), std::move(rest.replay), rest.next_frame + 1};
  return run_resume_code(code, globals.get(), closure, std::move(transfer));
}

}  // namespace framejit::runtime
