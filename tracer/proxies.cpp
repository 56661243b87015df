#include "tracer/proxies.h"

#include <algorithm>

#include "base/once.h"
#include "tracer/proxy_call.h"

namespace framejit {

InstrIndex end_of_tidy_handler(const bytecode::Decoded& code, InstrIndex handler) {
  using bytecode::SimOp;
  for (InstrIndex i = handler; i.index() < code.size(); i = InstrIndex(i.value + 1)) switch (code.at(i).op) {
      case SimOp::kCopy:
      case SimOp::kSwap:
      case SimOp::kPopExcept:
      case SimOp::kPopTop:
      case SimOp::kLoadConst:
      case SimOp::kStoreFast:
      case SimOp::kDeleteFast:
        continue;
      case SimOp::kIntrinsicUnary:
        if (static_cast<bytecode::UnaryIntrinsic>(code.at(i).arg) != bytecode::UnaryIntrinsic::kStopIterationError)
          return {};
        continue;
      case SimOp::kReraise:
      case SimOp::kEndFinally:
      case SimOp::kCleanupThrow:  // of a `yield from`
        return i;
      default:
        return {};
    }
  return {};
}

bool handles_exceptions(const bytecode::Decoded& code) {
  if (code.regions.empty()) return code.has_handlers();
  return std::any_of(code.regions.begin(), code.regions.end(), [&](const bytecode::ExceptionRegion& region) {
    return !end_of_tidy_handler(code, region.handler).valid();
  });
}

namespace {

struct SimGeneratorObject : SimProxy {
  SimFrame* frame;
  BreakPoint origin;
};

struct SimCallableObject : SimProxy {
  PyObject* target;
  bool gives_truth;
};

PyObject* generator_next(PyObject* self) {
  auto* generator = reinterpret_cast<SimGeneratorObject*>(self);
  return ProxyCall::run(generator->sim, [&]() -> PyObject* {
    auto value = generator->sim->resume_generator(*generator->frame, SymValue::borrow(Py_None));
    if (value) return ProxyCall::realised(*generator->sim, std::move(*value));
    set_stop_iteration(*generator->sim, *generator->frame);  // __next__() shows what it returned
    return nullptr;
  });
}

PyObject* generator_send(PyObject* self, PyObject* sent) {
  auto* generator = reinterpret_cast<SimGeneratorObject*>(self);
  return ProxyCall::run(generator->sim, [&]() -> PyObject* {
    auto value = generator->sim->resume_generator(*generator->frame, SymValue::borrow(sent));
    if (value) return ProxyCall::realised(*generator->sim, std::move(*value));
    set_stop_iteration(*generator->sim, *generator->frame);
    return nullptr;
  });
}

// A delegate stands below this generator: the exception would have to go there first.
void require_no_delegate(Simulator& sim, const SimFrame& frame) {
  if (!frame.started || frame.finished) return;  // before the start it stands nowhere
  bytecode::SimOp op = frame.code->at(frame.pc).op;
  bool delegates = op == bytecode::SimOp::kYieldFrom;
  for (uint32_t next = frame.pc.value + 1; next < frame.code->size() && next < frame.pc.value + 4; ++next)
    delegates = delegates || frame.code->at(InstrIndex(next)).op == bytecode::SimOp::kSend;
  if (delegates || (frame.next.valid() && frame.next == frame.pc))
    sim.stop(StopReason::kGeneratorCall, "an exception is thrown into a generator that delegates");
}

PyObject* generator_throw(PyObject* self, PyObject* args) {
  auto* generator = reinterpret_cast<SimGeneratorObject*>(self);
  return ProxyCall::run(generator->sim, [&]() -> PyObject* {
    Simulator& sim = *generator->sim;
    // throw(type, value, traceback) or throw(exception).
    PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
    if (!PyArg_ParseTuple(args, "O|OO", &type, &value, &traceback)) return nullptr;
    PyObject* exception = value && value != Py_None ? value : type;
    if (PyExceptionClass_Check(exception)) exception = sim.keep(sim.call(SymValue::borrow(exception), {}).obj);
    if (!PyExceptionInstance_Check(exception)) sim.stop(StopReason::kGeneratorCall, "throw of no exception object");
    require_no_delegate(sim, *generator->frame);
    auto yielded = sim.throw_into_generator(*generator->frame, exception);
    if (yielded) return ProxyCall::realised(sim, std::move(*yielded));
    set_stop_iteration(sim, *generator->frame);
    return nullptr;
  });
}

// What close() gives.
SymValue close_generator(Simulator& sim, SimFrame& frame) {
  SymValue none = SymValue::borrow(Py_None);
  if (!frame.started || frame.finished) {
    frame.finished = true;
    return none;
  }
  require_no_delegate(sim, frame);
  PyObject* exit = sim.keep(sim.check(PyObject_CallObject(PyExc_GeneratorExit, nullptr)));
  try {
    if (sim.throw_into_generator(frame, exit)) sim.raise(PyExc_RuntimeError, "generator ignored GeneratorExit");
  } catch (const PythonRaised&) {
    if (!PyErr_ExceptionMatches(PyExc_GeneratorExit) && !PyErr_ExceptionMatches(PyExc_StopIteration)) throw;
    PyErr_Clear();
    return none;
  }
  return bytecode::traits(frame.code->version).close_returns ? frame.return_value : none;
}

// Whether code of the program may run if the generator is closed where it stands: its yield lies in a `try` or `with`.
bool runs_code_when_closed(const SimFrame& frame) {
  if (!frame.started || frame.finished || frame.running) return false;
  const bytecode::Decoded& code = *frame.code;
  for (const SimBlock& block : frame.blocks)
    if (!block.is_handler && !end_of_tidy_handler(code, block.handler).valid()) return true;
  for (int32_t region = code.at(frame.pc).region; region >= 0;) {
    const InstrIndex end = end_of_tidy_handler(code, code.regions[region].handler);
    if (!end.valid()) return true;
    region = code.at(end).region;
  }
  return false;
}

PyObject* generator_close(PyObject* self, PyObject*) {
  auto* generator = reinterpret_cast<SimGeneratorObject*>(self);
  return ProxyCall::run(generator->sim, [&]() -> PyObject* {
    return ProxyCall::realised(*generator->sim, close_generator(*generator->sim, *generator->frame));
  });
}

void generator_dealloc(PyObject* self) {
  delete reinterpret_cast<SimGeneratorObject*>(self)->frame;
  Py_TYPE(self)->tp_free(self);
}

PyObject* callable_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  auto* callable = reinterpret_cast<SimCallableObject*>(self);
  return ProxyCall::run(callable->sim, [&]() -> PyObject* {
    CallArgs call_args;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i)
      call_args.positional.push_back(SymValue::borrow(PyTuple_GET_ITEM(args, i)));
    PyObject *key, *value;
    for (Py_ssize_t pos = 0; kwargs && PyDict_Next(kwargs, &pos, &key, &value);)
      call_args.keywords.emplace_back(Ref::borrow(key), SymValue::borrow(value));
    SymValue result = callable->sim->call(SymValue::borrow(callable->target), std::move(call_args));
    if (callable->gives_truth) result = SymValue::of_bool(callable->sim->truth(result));
    return ProxyCall::realised(*callable->sim, std::move(result));
  });
}

// Of whatever arguments: C code that binds defaults (torch.autograd.Function) leaves them as they are.
PyObject* callable_signature(PyObject*, void*) {
  Ref inspect = Ref::steal(PyImport_ImportModule("inspect"));
  if (!inspect) return nullptr;
  Ref parameter = Ref::steal(PyObject_GetAttrString(inspect.get(), "Parameter"));
  Ref kind = Ref::steal(parameter ? PyObject_GetAttrString(parameter.get(), "VAR_POSITIONAL") : nullptr);
  Ref rest = Ref::steal(kind ? PyObject_CallFunction(parameter.get(), "sO", "args", kind.get()) : nullptr);
  return rest ? PyObject_CallMethod(inspect.get(), "Signature", "[O]", rest.get()) : nullptr;
}

void callable_dealloc(PyObject* self) {
  Py_XDECREF(reinterpret_cast<SimCallableObject*>(self)->target);
  Py_TYPE(self)->tp_free(self);
}

PyMethodDef generator_methods[] = {
    {"send", generator_send, METH_O, nullptr},
    {"throw", generator_throw, METH_VARARGS, nullptr},
    {"close", generator_close, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef callable_attributes[] = {
    {"__signature__", callable_signature, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject* generator_type() {
  static PyTypeObject type = [] {
    PyTypeObject t = proxy_type("generator", sizeof(SimGeneratorObject), generator_dealloc);
    t.tp_iter = PyObject_SelfIter;
    t.tp_iternext = generator_next;
    t.tp_methods = generator_methods;
    return t;
  }();
  return once_under_lock([] { return ready(type); });
}

PyTypeObject* callable_type() {
  static PyTypeObject type = [] {
    PyTypeObject t = proxy_type("function", sizeof(SimCallableObject), callable_dealloc);
    t.tp_call = callable_call;
    t.tp_getset = callable_attributes;
    return t;
  }();
  return once_under_lock([] { return ready(type); });
}

struct SimTracebackObject {
  PyObject_HEAD BreakPoint origin;
};

PyTypeObject* traceback_type() {
  static PyTypeObject type =
      proxy_type("traceback", sizeof(SimTracebackObject), [](PyObject* self) { Py_TYPE(self)->tp_free(self); });
  return once_under_lock([] { return ready(type); });
}

}  // namespace

Ref make_sim_generator(Simulator& sim, std::unique_ptr<SimFrame> frame) {
  auto* self = PyObject_New(SimGeneratorObject, generator_type());
  FJ_CHECK(self, "out of memory");
  self->sim = &sim;
  self->origin = sim.current_break_point();
  self->frame = frame.release();
  sim.adopt_proxy(reinterpret_cast<PyObject*>(self));
  return Ref::steal(reinterpret_cast<PyObject*>(self));
}

bool is_sim_generator(PyObject* obj) { return Py_TYPE(obj) == generator_type(); }

SimFrame* sim_generator_frame(PyObject* obj) {
  return is_sim_generator(obj) ? reinterpret_cast<SimGeneratorObject*>(obj)->frame : nullptr;
}

BreakPoint sim_generator_origin(PyObject* obj) { return reinterpret_cast<SimGeneratorObject*>(obj)->origin; }

Ref make_sim_traceback(Simulator& sim, BreakPoint raised_at) {
  auto* self = PyObject_New(SimTracebackObject, traceback_type());
  FJ_CHECK(self, "out of memory");
  self->origin = raised_at;
  return Ref::steal(reinterpret_cast<PyObject*>(self));
}

bool is_sim_traceback(PyObject* obj) { return Py_TYPE(obj) == traceback_type(); }

BreakPoint sim_traceback_origin(PyObject* obj) { return reinterpret_cast<SimTracebackObject*>(obj)->origin; }

Ref make_sim_callable(Simulator& sim, SymValue callable, bool gives_truth) {
  auto* self = PyObject_New(SimCallableObject, callable_type());
  FJ_CHECK(self, "out of memory");
  self->sim = &sim;
  self->target = Ref::borrow(sim.realise(callable)).release();
  self->gives_truth = gives_truth;
  sim.adopt_proxy(reinterpret_cast<PyObject*>(self));
  return Ref::steal(reinterpret_cast<PyObject*>(self));
}

bool is_sim_callable(PyObject* obj) { return Py_TYPE(obj) == callable_type(); }
PyObject* sim_callable_target(PyObject* obj) { return reinterpret_cast<SimCallableObject*>(obj)->target; }

PyTypeObject* type_seen(PyObject* obj) {
  if (is_sim_generator(obj)) return &PyGen_Type;
  if (is_sim_callable(obj)) return &PyFunction_Type;
  return is_sim_traceback(obj) ? &PyTraceBack_Type : Py_TYPE(obj);
}

void set_stop_iteration(Simulator& sim, SimFrame& generator) {
  SymValue& returned = generator.return_value;
  PyObject* value = returned.null() ? Py_None : sim.hold(returned);
  if (value == Py_None) return PyErr_SetNone(PyExc_StopIteration);
  // Not PyErr_SetObject alone: it would spread a tuple, and raise an exception as it is.
  Ref error = Ref::steal(PyObject_CallFunctionObjArgs(PyExc_StopIteration, value, nullptr));
  if (error) PyErr_SetObject(PyExc_StopIteration, error.get());
}

void Simulator::adopt_proxy(PyObject* proxy) {
  proxies_.push_back(Ref::borrow(proxy));
  if (is_sim_generator(proxy)) open_generators_.push_back(proxy);
}

void Simulator::keep_generators() {
  for (PyObject* generator : open_generators_)
    if (runs_code_when_closed(*sim_generator_frame(generator))) keep(Ref::borrow(generator));
}

void Simulator::require_no_open_generator() {
  for (PyObject* generator : open_generators_)
    if (runs_code_when_closed(*sim_generator_frame(generator))) stop_before(generator);
}

void Simulator::stop_before(PyObject* generator) {
  const SimFrame& frame = *sim_generator_frame(generator);
  throw StopTrace{TraceStop{StopReason::kGeneratorCall, "it is dropped inside a 'try' or 'with'",
                            stop_location(*frame.code, frame.pc)},
                  sim_generator_origin(generator)};
}

namespace {

// So many natives are looked through at each instruction; of more, each comes up once in so many instructions.
constexpr size_t kFewNatives = 64;

}  // namespace

bool Simulator::forget_native_origins() {
  const size_t before = native_origins_.size();
  while (std::erase_if(native_origins_, [](const auto& entry) { return Py_REFCNT(entry.first) == 1; }) > 0)
    continue;  // each may have held others
  next_forget_ = count_ + native_origins_.size() / kFewNatives;
  return native_origins_.size() < before;
}

void Simulator::close_dropped_generators() {
  bool any_with_code = std::any_of(open_generators_.begin(), open_generators_.end(), [](PyObject* generator) {
    return runs_code_when_closed(*sim_generator_frame(generator));
  });
  const bool late = next_forget_ > 0 && native_origins_.size() > kFewNatives;
  const bool forgot = any_with_code && count_ >= next_forget_ && forget_native_origins();
  std::vector<PyObject*> dropped;  // only proxies_ holds them
  int with_code = 0;
  for (PyObject* generator : open_generators_) {
    const SimFrame& frame = *sim_generator_frame(generator);
    if (frame.finished || frame.running || Py_REFCNT(generator) > 1) continue;
    dropped.push_back(generator);
    // Which of several dies first is not known here, nor when one died that a native held.
    if (runs_code_when_closed(frame) && (++with_code > 1 || (late && forgot))) stop_before(generator);
  }
  std::erase_if(open_generators_, [](PyObject* generator) {
    const SimFrame& frame = *sim_generator_frame(generator);
    return frame.finished || (!frame.running && Py_REFCNT(generator) == 1);
  });
  for (PyObject* generator : dropped) {
    SimFrame& frame = *sim_generator_frame(generator);
    try {
      if (runs_code_when_closed(frame)) close_generator(*this, frame);
    } catch (const PythonRaised&) {  // the interpreter would print it
      PyErr_Clear();
      stop_before(generator);
    } catch (StopTrace& stopped) {
      stop_before(generator);
    }
    frame.finished = true;
    frame.stack.clear();
    frame.slots.clear();
  }
  if (!dropped.empty()) close_dropped_generators();  // they may have held others
}

void Simulator::drop_proxies() {
  for (Ref& proxy : proxies_) reinterpret_cast<SimProxy*>(proxy.get())->sim = nullptr;
  proxies_.clear();
}

}  // namespace framejit
