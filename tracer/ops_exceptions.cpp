// Raising, handlers and `with`, in both of CPython's models.
#include "tracer/attributes.h"
#include "tracer/ops.h"
#include "tracer/proxies.h"

namespace framejit::ops {

namespace {

Ref make_exception(Simulator& sim, SymValue& value, bool is_cause) {
  PyObject* obj = sim.realise(value);
  if (PyExceptionInstance_Check(obj)) {
    if (sim.is_outside_opaque(obj))
      sim.stop(StopReason::kUnsupportedValue, "an exception object of the program is raised");
    return value.obj;
  }
  if (!PyExceptionClass_Check(obj))
    sim.raise(PyExc_TypeError, is_cause ? "exception causes must derive from BaseException"
                                        : "exceptions must derive from BaseException");
  SymValue made = sim.call(value, {});
  if (PyExceptionInstance_Check(sim.realise(made))) return made.obj;
  // The message shows both types, which a metaclass of the program may do in its own way.
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(made.obj.get()));
  if (is_cause || Py_TYPE(obj) != &PyType_Type || Py_TYPE(type) != &PyType_Type)
    sim.stop(StopReason::kUnsupportedValue, "a class of exceptions makes what is none");
  PyErr_Format(PyExc_TypeError, "calling %R should have returned an instance of BaseException, not %R", obj, type);
  sim.raise();
}

[[noreturn]] void raise_object(Simulator& sim, PyObject* exception) {
  // Not PyErr_SetObject, which would make what the thread really handles its context.
  PyErr_Restore(Ref::borrow(reinterpret_cast<PyObject*>(Py_TYPE(exception))).release(),
                Ref::borrow(exception).release(), PyException_GetTraceback(exception));
  throw PythonRaised{};
}

// A bare `raise` raises what a caller handles, too: a frame of the trace, or one that runs already.
[[noreturn]] void raise_without_handled(Simulator& sim) {
  const std::vector<SimFrame*>& frames = sim.frames();
  for (size_t i = frames.size(); i-- > 0;)
    if (PyObject* handled = frames[i]->handled.get(); handled && handled != Py_None) raise_object(sim, handled);
  sim.require_nothing_handled();
  sim.raise(PyExc_RuntimeError, "No active exception to reraise");
}

bool matches(Simulator& sim, PyObject* exception, SymValue type) {
  PyObject* obj = sim.realise(type);
  bool legal = PyExceptionClass_Check(obj) || PyTuple_Check(obj);
  for (Py_ssize_t i = 0; legal && PyTuple_Check(obj) && i < PyTuple_GET_SIZE(obj); ++i)
    legal = PyExceptionClass_Check(PyTuple_GET_ITEM(obj, i));
  if (!legal) sim.raise(PyExc_TypeError, "catching classes that do not inherit from BaseException is not allowed");
  return PyErr_GivenExceptionMatches(exception, obj);
}

// What the manager's class has: its own attributes do not count.
SymValue load_special(Simulator& sim, SymValue& manager, const char* name) {
  PyTypeObject* type = Py_TYPE(sim.realise(manager));
  PyObject* found = sim.lookup_type(type, interned(name));
  // The interpreter knows the words of its version.
  if (!found) sim.stop(StopReason::kUnsupportedAttribute, fmt::format("'{}' has no {}", type->tp_name, name));
  rely_on_descriptor(sim, found);
  return sim.bind(found, manager);
}

// [manager] -> [exit, value of enter]
void enter_context(Simulator& sim, SimFrame& frame) {
  SymValue manager = frame.pop();
  SymValue exit = load_special(sim, manager, "__exit__");
  SymValue enter = load_special(sim, manager, "__enter__");
  frame.push(std::move(exit));
  frame.push(sim.call(std::move(enter), CallArgs{}));
}

SymValue call_exit(Simulator& sim, const SymValue& exit, PyObject* exception) {
  CallArgs args;
  if (exception) {
    const BreakPoint* raised_at = sim.raised_at(exception);
    args.positional = {SymValue::borrow(reinterpret_cast<PyObject*>(Py_TYPE(exception))), SymValue::borrow(exception),
                       raised_at ? SymValue(make_sim_traceback(sim, *raised_at)) : SymValue::borrow(Py_None)};
  } else {
    args.positional.assign(3, SymValue::borrow(Py_None));
  }
  return sim.call(exit, std::move(args));
}

}  // namespace

void handle_Raise(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  if (instr.arg == 0) {
    if (frame.handled.null() || frame.handled.get() == Py_None) raise_without_handled(sim);
    raise_object(sim, frame.handled.get());
  }
  SymValue cause = instr.arg == 2 ? frame.pop() : SymValue();
  SymValue value = frame.pop();
  Ref exception = make_exception(sim, value, false);
  if (!cause.null()) {
    Ref cause_object = sim.realise(cause) == Py_None ? Ref() : make_exception(sim, cause, true);
    PyException_SetCause(exception.get(), cause_object.release());
  }
  sim.chain_context(exception.get());
  raise_object(sim, exception.get());
}

// --- 3.11+

void handle_PushExcInfo(Simulator&, SimFrame& frame, const Instruction&) {
  SymValue exception = frame.pop();
  frame.push(frame.handled.null() ? SymValue::borrow(Py_None) : frame.handled);
  frame.handled = exception;
  frame.push(std::move(exception));
}

void handle_CheckExcMatch(Simulator& sim, SimFrame& frame, const Instruction&) {
  SymValue type = frame.pop();
  bool match = matches(sim, frame.peek(1).get(), std::move(type));
  frame.push(SymValue::of_bool(match));
}

void handle_CheckEgMatch(Simulator& sim, SimFrame&, const Instruction&) {
  sim.stop(StopReason::kUnsupportedInstruction, "except*");
}

void handle_Reraise(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  if (!frame.code->regions.empty() || frame.blocks.empty()) {
    // 3.11+: [exception], below it the offset of the instruction that raised first where arg says so.
    SymValue exception = frame.pop();
    raise_object(sim, exception.get());
  }
  SymValue type = frame.pop(), value = frame.pop(), traceback = frame.pop();
  raise_object(sim, value.get());
}

// --- both

void handle_ExcMatch(Simulator& sim, SimFrame& frame, const Instruction&) {
  SymValue type = frame.pop(), exception = frame.pop();
  frame.push(SymValue::of_bool(matches(sim, exception.get(), std::move(type))));
}

void handle_JumpIfNotExcMatch(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue type = frame.pop(), exception = frame.pop();
  if (!matches(sim, exception.get(), std::move(type))) frame.next = instr.target;
}

void handle_PopExcept(Simulator&, SimFrame& frame, const Instruction&) {
  if (!frame.blocks.empty() && frame.blocks.back().is_handler) {
    frame.blocks.pop_back();
    // [previous traceback, value, type]; a value that is being returned may lie below.
    frame.pop();
    frame.handled = frame.pop();
    frame.pop();
    return;
  }
  frame.handled = frame.pop();
}

// --- 3.8 to 3.10

void handle_SetupFinally(Simulator&, SimFrame& frame, const Instruction& instr) {
  frame.blocks.push_back({false, instr.target, frame.stack.size()});
}

void handle_PopBlock(Simulator&, SimFrame& frame, const Instruction&) { frame.blocks.pop_back(); }

void handle_BeginFinally(Simulator&, SimFrame& frame, const Instruction&) { frame.push({}); }

// The return address is the index of the next instruction, as a number.
void handle_CallFinally(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  frame.push(SymValue(sim.check(PyLong_FromLong(frame.next.value))));
  frame.next = instr.target;
}

void handle_EndFinally(Simulator& sim, SimFrame& frame, const Instruction&) {
  SymValue top = frame.pop();
  if (top.null()) return;
  if (PyLong_CheckExact(top.get())) {
    frame.next = InstrIndex(static_cast<uint32_t>(PyLong_AsLong(top.get())));
    return;
  }
  SymValue value = frame.pop(), traceback = frame.pop();
  raise_object(sim, value.get());
}

void handle_PopFinally(Simulator&, SimFrame& frame, const Instruction& instr) {
  SymValue kept = instr.arg ? frame.pop() : SymValue();
  SymValue top = frame.pop();
  if (!top.null() && !PyLong_CheckExact(top.get())) {
    frame.pop();
    frame.pop();
    SimBlock block = frame.blocks.back();
    frame.blocks.pop_back();
    frame.handled = frame.stack[block.level + 1];
    frame.stack.resize(block.level);
  }
  if (instr.arg) frame.push(std::move(kept));
}

// --- with

void handle_BeforeWith(Simulator& sim, SimFrame& frame, const Instruction&) { enter_context(sim, frame); }

void handle_SetupWith(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  enter_context(sim, frame);
  frame.blocks.push_back({false, instr.target, frame.stack.size() - 1});
}

// 3.9 to 3.10: [exit, previous 3, traceback, value, type]; 3.11+: [exit, lasti, previous, exception].
void handle_WithExceptStart(Simulator& sim, SimFrame& frame, const Instruction&) {
  bool blocks = !frame.blocks.empty() && frame.blocks.back().is_handler;
  SymValue exit = blocks ? frame.peek(7) : frame.peek(4);
  PyObject* exception = blocks ? frame.peek(2).get() : frame.peek(1).get();
  frame.push(call_exit(sim, exit, exception));
}

// 3.8: the finally body of a with statement, entered with NULL, a return address, or six values of an exception. While
// __exit__ runs the stack is as before: if it breaks, the regenerated code must be able to stand here.
void handle_WithCleanupStart(Simulator& sim, SimFrame& frame, const Instruction&) {
  const SymValue& top = frame.peek(1);
  if (top.null() || PyLong_CheckExact(top.get())) {
    SymValue result = call_exit(sim, frame.peek(2), nullptr);
    frame.stack.erase(frame.stack.end() - 2);
    frame.push(SymValue::borrow(Py_None));
    frame.push(std::move(result));
    return;
  }
  Ref exception = frame.peek(2).obj;
  SymValue result = call_exit(sim, frame.peek(7), exception.get());
  frame.stack.erase(frame.stack.end() - 7);
  frame.push({});
  std::rotate(frame.stack.end() - 4, frame.stack.end() - 1, frame.stack.end());
  frame.blocks.back().level -= 1;
  frame.push(SymValue::borrow(reinterpret_cast<PyObject*>(Py_TYPE(exception.get()))));
  frame.push(std::move(result));
}

void handle_WithCleanupFinish(Simulator& sim, SimFrame& frame, const Instruction&) {
  SymValue result = frame.pop(), exception = frame.pop();
  if (exception.get() == Py_None || !sim.truth(result)) return;
  SimBlock block = frame.blocks.back();
  frame.blocks.pop_back();
  frame.handled = frame.stack[block.level + 1];
  frame.stack.resize(block.level);
  frame.push({});
}

}  // namespace framejit::ops
