// Jumps, iteration, generators, and the match statement.
#include "tracer/ops.h"
#include "tracer/proxies.h"

namespace framejit::ops {

using bytecode::JumpCondition;

static bool condition_holds(Simulator& sim, JumpCondition condition, SymValue& value) {
  switch (condition) {
    case JumpCondition::kTrue:
      return sim.truth(value);
    case JumpCondition::kFalse:
      return !sim.truth(value);
    case JumpCondition::kNone:
      return sim.is_same(value, SymValue::borrow(Py_None));
    case JumpCondition::kNotNone:
      return !sim.is_same(value, SymValue::borrow(Py_None));
  }
  return false;
}

void handle_Jump(Simulator&, SimFrame& frame, const Instruction& instr) { frame.next = instr.target; }

void handle_PopJumpIf(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue value = frame.pop();
  if (condition_holds(sim, instr.condition(), value)) frame.next = instr.target;
}

void handle_JumpIfOrPop(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  if (condition_holds(sim, instr.condition(), frame.peek(1)))
    frame.next = instr.target;
  else
    frame.pop();
}

void handle_GetIter(Simulator& sim, SimFrame& frame, const Instruction&) {
  SymValue value = frame.pop();
  frame.push(sim.get_iter(std::move(value)));
}

void handle_ForIter(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue iterator = frame.peek(1);
  if (auto item = sim.next(iterator)) {
    frame.push(std::move(*item));
    return;
  }
  frame.pop();
  frame.next = instr.target;
}

void handle_EndFor(Simulator&, SimFrame&, const Instruction&) { FJ_CHECK(false, "EndFor is never reached"); }

void handle_GetYieldFromIter(Simulator& sim, SimFrame& frame, const Instruction&) {
  if (is_sim_generator(frame.peek(1).get())) return;
  SymValue value = frame.pop();
  frame.push(sim.get_iter(std::move(value)));
}

// On 3.11+ the generator's frame starts here and is resumed behind it, with a value that PopTop drops.
void handle_ReturnGenerator(Simulator&, SimFrame& frame, const Instruction&) { frame.push(SymValue::borrow(Py_None)); }
// The simulation pushes no value at the first resumption.
void handle_GenStart(Simulator&, SimFrame&, const Instruction&) {}

void handle_YieldValue(Simulator& sim, SimFrame& frame, const Instruction&) {
  if (!frame.generator) sim.stop(StopReason::kGeneratorCall, "yield in the captured frame");
  frame.result = frame.pop();
  frame.yielded = true;
}

// One step of a delegated iteration. True: it yielded; false: it ended with `result`.
static bool delegate(Simulator& sim, SymValue& iterator, SymValue sent, SymValue& result) {
  std::optional<SymValue> item;
  SymValue stop_value = SymValue::borrow(Py_None);
  SimFrame* generator = sim_generator_frame(iterator.get());
  if (generator) {
    item = sim.resume_generator(*generator, std::move(sent));
  } else {
    if (sent.get() != Py_None) sim.stop(StopReason::kGeneratorCall, "a value is sent to an iterator");
    item = sim.next(iterator, &stop_value);
  }
  if (item) {
    result = std::move(*item);
    return true;
  }
  result = generator ? generator->return_value : stop_value;
  return false;
}

// 3.8 to 3.10: [iterator, sent]; stays at the instruction while the inner iterator yields.
void handle_YieldFrom(Simulator& sim, SimFrame& frame, const Instruction&) {
  SymValue sent = frame.pop();
  SymValue iterator = frame.peek(1);
  SymValue result;
  if (delegate(sim, iterator, std::move(sent), result)) {
    frame.result = std::move(result);
    frame.yielded = true;
    frame.next = frame.pc;
    return;
  }
  frame.peek(1) = std::move(result);
}

// 3.11+: [iterator, sent] -> [iterator, yielded], or a jump with the returned value on top.
void handle_Send(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue sent = frame.pop();
  SymValue iterator = frame.peek(1);
  SymValue result;
  if (delegate(sim, iterator, std::move(sent), result)) {
    frame.push(std::move(result));
    return;
  }
  // 3.11 drops the iterator here, later versions behind the jump.
  if (frame.code->stack_depth(instr.target) == static_cast<int>(frame.stack.size()))
    frame.peek(1) = std::move(result);
  else
    frame.push(std::move(result));
  frame.next = instr.target;
}

#define ASYNC_STOP(name) \
  void handle_##name(Simulator& sim, SimFrame&, const Instruction&) { sim.stop(StopReason::kGeneratorCall, #name); }
ASYNC_STOP(GetAwaitable)
ASYNC_STOP(GetAiter)
ASYNC_STOP(GetAnext)
ASYNC_STOP(EndAsyncFor)
ASYNC_STOP(CleanupThrow)
ASYNC_STOP(BeforeAsyncWith)
ASYNC_STOP(SetupAsyncWith)
#undef ASYNC_STOP

// --- match

// Py_TPFLAGS_SEQUENCE and Py_TPFLAGS_MAPPING: a class has at most one of them, that of its first base with one.
constexpr unsigned long kSequenceFlag = 1UL << 5, kMappingFlag = 1UL << 6;

static void push_type_flag(SimFrame& frame, Simulator& sim, unsigned long flag) {
  PyTypeObject* type = Py_TYPE(sim.realise(frame.peek(1)));
  if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) sim.rely_on_registrations();  // they set and change the flag
  const bool has = (type->tp_flags & flag) != 0;
  frame.push(SymValue::of_bool(has));
}

void handle_GetLen(Simulator& sim, SimFrame& frame, const Instruction&) {
  frame.push(SymValue(sim.check(PyLong_FromSsize_t(sim.length(frame.peek(1))))));
}

void handle_MatchMapping(Simulator& sim, SimFrame& frame, const Instruction&) {
  push_type_flag(frame, sim, kMappingFlag);
}

void handle_MatchSequence(Simulator& sim, SimFrame& frame, const Instruction&) {
  push_type_flag(frame, sim, kSequenceFlag);
}

void handle_MatchKeys(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue keys = frame.peek(1), subject = frame.peek(2);
  Ref values = sim.check(PyList_New(0));
  bool all = true;
  for (Py_ssize_t i = 0; all && i < PyTuple_GET_SIZE(keys.get()); ++i) {
    SymValue key = SymValue::borrow(PyTuple_GET_ITEM(keys.get(), i));
    for (Py_ssize_t other = 0; other < i; ++other) {
      SymValue equal =
          sim.compare(bytecode::CompareKind::kEqual, SymValue::borrow(PyTuple_GET_ITEM(keys.get(), other)), key);
      if (sim.truth(equal)) sim.stop(StopReason::kUncaughtException, "a mapping pattern asks for a key twice");
    }
    all = sim.contains(subject, key);
    if (!all) break;
    SymValue value = sim.get_item(subject, key);
    sim.check_status(PyList_Append(values.get(), sim.hold(value)));
  }
  frame.push(all ? SymValue(sim.check(PyList_AsTuple(values.get()))) : SymValue::borrow(Py_None));
  if (instr.aux & 1) frame.push(SymValue::of_bool(all));
}

// The attributes that the patterns of a class pattern ask for; empty if the subject does not match.
static std::optional<std::vector<SymValue>> class_attributes(Simulator& sim, SymValue& subject, PyObject* type,
                                                             PyObject* names, Py_ssize_t positional) {
  if (!sim.is_instance(sim.realise(subject), type)) return std::nullopt;
  std::vector<SymValue> found;
  SymValue owner = SymValue::borrow(type);
  std::vector<PyObject*> asked;
  auto find = [&](PyObject* name) {
    for (PyObject* other : asked)
      if (PyUnicode_Compare(name, other) == 0)
        sim.stop(StopReason::kUncaughtException, "two patterns for one attribute");
    asked.push_back(name);
    auto value = sim.find_attr(subject, name);
    if (value) found.push_back(std::move(*value));
    return value.has_value();
  };
  if (positional) {
    auto match_args = sim.find_attr(owner, interned("__match_args__"));
    bool self_match = !match_args && (reinterpret_cast<PyTypeObject*>(type)->tp_flags & (1UL << 22)) != 0;
    if (self_match && positional == 1) {
      found.push_back(subject);
    } else {
      if (match_args && !PyTuple_CheckExact(sim.realise(*match_args)))
        sim.stop(StopReason::kUncaughtException, "__match_args__ is no tuple");
      Py_ssize_t allowed = match_args ? PyTuple_GET_SIZE(match_args->get()) : 0;
      if (positional > allowed) sim.stop(StopReason::kUncaughtException, "too many positional patterns");
      for (Py_ssize_t i = 0; i < positional; ++i) {
        PyObject* name = PyTuple_GET_ITEM(match_args->get(), i);
        if (!PyUnicode_CheckExact(name)) sim.stop(StopReason::kUncaughtException, "__match_args__ of other than names");
        if (!find(name)) return std::nullopt;
      }
    }
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i)
    if (!find(PyTuple_GET_ITEM(names, i))) return std::nullopt;
  return found;
}

void handle_MatchClass(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue names = frame.pop(), type = frame.pop(), subject = frame.pop();
  if (!PyType_Check(sim.realise(type))) sim.raise(PyExc_TypeError, "called match pattern must be a class");
  auto found = class_attributes(sim, subject, type.get(), names.get(), instr.arg);
  SymValue result = SymValue::borrow(Py_None);
  if (found) {
    Ref tuple = sim.check(PyTuple_New(found->size()));
    for (size_t i = 0; i < found->size(); ++i) {
      sim.hold((*found)[i]);
      PyTuple_SET_ITEM(tuple.get(), i, (*found)[i].obj.release());
    }
    result = SymValue(std::move(tuple));
  }
  if (!(instr.aux & 1)) {
    frame.push(std::move(result));
    return;
  }
  frame.push(found ? std::move(result) : subject);
  frame.push(SymValue::of_bool(found.has_value()));
}

void handle_CopyDictWithoutKeys(Simulator& sim, SimFrame& frame, const Instruction&) {
  SymValue keys = frame.peek(1), subject = frame.peek(2);
  Ref rest = sim.snapshot_dict(subject);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys.get()); ++i)
    sim.check_status(PyDict_DelItem(rest.get(), PyTuple_GET_ITEM(keys.get(), i)));
  frame.peek(1) = SymValue(std::move(rest));
}

}  // namespace framejit::ops
