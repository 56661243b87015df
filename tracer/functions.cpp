// Inlining of Python functions: binding of arguments as PyEval_EvalCodeEx and its successors do it, and generators.
#include "tracer/callables.h"
#include "tracer/frame_builtins.h"
#include "tracer/introspection.h"
#include "tracer/library.h"
#include "tracer/library_code.h"
#include "tracer/proxies.h"
#include "tracer/simulator.h"

namespace framejit {

using graph::SourceId;
using graph::SourceKind;

namespace {

bool is_made_in_trace(Simulator& sim, PyObject* function) { return sim.made_constants().count(function) != 0; }

class ArgumentBinder {
 public:
  ArgumentBinder(Simulator& sim, PyObject* function, const bytecode::DecodedCode& code, SimFrame& frame)
      : sim_(sim), function_(function), code_(code), frame_(frame), fresh_(is_made_in_trace(sim, function)) {}

  void bind(CallArgs args) {
    given_ = args.positional.size();
    for (const auto& keyword : args.keywords) keywords_.push_back(keyword.first);
    size_t named = code_.arg_count, keyword_only = code_.kwonly_arg_count;
    size_t given = args.positional.size();
    for (size_t i = 0; i < std::min(given, named); ++i) frame_.slots[i] = std::move(args.positional[i]);
    size_t next_slot = named + keyword_only;
    if (code_.flags & CO_VARARGS) {
      Ref rest = sim_.check(PyTuple_New(given > named ? given - named : 0));
      for (size_t i = named; i < given; ++i) {
        sim_.hold(args.positional[i]);
        PyTuple_SET_ITEM(rest.get(), i - named, args.positional[i].obj.release());
      }
      frame_.slots[next_slot++] = SymValue(std::move(rest));
    } else if (given > named) {
      fail();
    }
    Ref extra;
    if (code_.flags & CO_VARKEYWORDS) {
      extra = sim_.check(PyDict_New());
      frame_.slots[next_slot] = SymValue(extra);
    }
    for (auto& [name, value] : args.keywords) bind_keyword(name.get(), std::move(value), extra.get());
    fill_defaults();
    fill_keyword_defaults();
  }

 private:
  // The interpreter knows the words of its version. It fails before the function's first instruction, and looks at the
  // number of arguments and at their names alone.
  [[noreturn]] void fail() {
    Ref positional = sim_.check(PyTuple_New(static_cast<Py_ssize_t>(given_)));
    for (size_t i = 0; i < given_; ++i) PyTuple_SET_ITEM(positional.get(), i, Ref::borrow(Py_None).release());
    Ref named = sim_.check(PyDict_New());
    for (const Ref& name : keywords_) sim_.check_status(PyDict_SetItem(named.get(), name.get(), Py_None));
    Ref result = Ref::steal(PyObject_Call(function_, positional.get(), named.get()));
    FJ_CHECK(!result && PyErr_ExceptionMatches(PyExc_TypeError), "a call that cannot bind its arguments did");
    sim_.raise();
  }

  void bind_keyword(PyObject* name, SymValue value, PyObject* extra) {
    size_t first = code_.posonly_arg_count, last = code_.arg_count + code_.kwonly_arg_count;
    for (size_t i = first; i < last; ++i) {
      PyObject* slot_name = code_.slot_name(i);
      if (slot_name != name && PyUnicode_Compare(slot_name, name) != 0) continue;
      if (!frame_.slots[i].null()) fail();
      frame_.slots[i] = std::move(value);
      return;
    }
    if (!extra) fail();
    sim_.check_status(PyDict_SetItem(extra, name, sim_.hold(value)));
  }

  SymValue default_value(PyObject* value, SourceKind holder, SourceKind kind, uint32_t index, PyObject* name) {
    if (fresh_) return SymValue::borrow(value);
    World& world = sim_.world();
    graph::SourceTable& sources = world.sources();
    SourceId base = sources.read(holder, world.source_of(function_));
    return world.wrap(value, kind == SourceKind::kTupleItem ? sources.item(kind, base, index)
                                                            : sources.keyed(kind, base, world.pool().add(name)));
  }

  void fill_defaults() {
    PyObject* defaults = PyFunction_GET_DEFAULTS(function_);
    size_t count = defaults ? PyTuple_GET_SIZE(defaults) : 0;
    size_t first = code_.arg_count - count;
    for (size_t i = 0; i < static_cast<size_t>(code_.arg_count); ++i) {
      if (!frame_.slots[i].null()) continue;
      if (i < first) fail();
      frame_.slots[i] = default_value(PyTuple_GET_ITEM(defaults, i - first), SourceKind::kFunctionDefaults,
                                      SourceKind::kTupleItem, i - first, nullptr);
    }
  }

  PyObject* shown(PyObject* keyword_defaults) {
    World& world = sim_.world();
    if (fresh_) return nullptr;
    const SourceId source = world.sources().read(SourceKind::kFunctionKwDefaults, world.source_of(function_));
    world.note_keyword_defaults(keyword_defaults, source);
    return world.shown_at(keyword_defaults, source);
  }

  void fill_keyword_defaults() {
    PyObject* defaults = PyFunction_GET_KW_DEFAULTS(function_);
    for (int i = code_.arg_count; i < code_.arg_count + code_.kwonly_arg_count; ++i) {
      if (!frame_.slots[i].null()) continue;
      PyObject* name = code_.slot_name(i);
      PyObject* shadow = defaults ? shown(defaults) : nullptr;
      PyObject* value = defaults ? PyDict_GetItemWithError(shadow ? shadow : defaults, name) : nullptr;
      if (!value && shadow) sim_.stop(StopReason::kUnsupportedValue, "a default that the captured code has deleted");
      if (!value) fail();
      frame_.slots[i] = shadow ? SymValue::borrow(value)
                               : default_value(value, SourceKind::kFunctionKwDefaults, SourceKind::kDictItem, 0, name);
    }
  }

  Simulator& sim_;
  PyObject* function_;
  const bytecode::DecodedCode& code_;
  SimFrame& frame_;
  bool fresh_;
  size_t given_ = 0;
  std::vector<Ref> keywords_;
};

// Cells that the frame starts with: the closure's, and on 3.8 to 3.10 the frame's own.
void prepare_cells(Simulator& sim, PyObject* function, SimFrame& frame) {
  const bytecode::DecodedCode& code = *frame.code;
  bool made_by_instructions = code.size() && bytecode::traits(code.version).has_resume;
  for (size_t i = 0; i < code.slots.size(); ++i) {
    const bytecode::LocalSlot& slot = code.slots[i];
    if (!slot.is_cell || made_by_instructions) continue;
    SymValue contents = slot.from_arg >= 0 ? std::move(frame.slots[slot.from_arg]) : SymValue();
    if (slot.from_arg >= 0) frame.slots[slot.from_arg] = SymValue();
    if (!contents.null()) sim.hold(contents);
    frame.slots[i] = SymValue(sim.check(PyCell_New(contents.get())));
  }
  PyObject* closure = PyFunction_GET_CLOSURE(function);
  size_t first_free = code.slots.size() - code.free_count;
  World& world = sim.world();
  for (int i = 0; i < code.free_count; ++i) {
    PyObject* cell = PyTuple_GET_ITEM(closure, i);
    if (is_made_in_trace(sim, function)) {
      frame.slots[first_free + i] = SymValue::borrow(cell);
      continue;
    }
    SourceId base = world.sources().read(SourceKind::kFunctionClosure, world.source_of(function));
    frame.slots[first_free + i] = world.wrap(cell, world.sources().item(SourceKind::kTupleItem, base, i));
  }
}

}  // namespace

std::unique_ptr<SimFrame> Simulator::make_frame(PyObject* function, CallArgs args) {
  auto frame = std::make_unique<SimFrame>();
  frame->code = services_.decode(PyFunction_GET_CODE(function));
  frame->function = Ref::borrow(function);
  PyObject* globals = PyFunction_GET_GLOBALS(function);
  frame->globals = Ref::borrow(globals);
  frame->builtins = Ref::borrow(builtins_of_call(function));
  rely_on_builtins(*frame);
  frame->slots.resize(frame->code->slots.size());
  frame->stack.reserve(static_cast<size_t>(frame->code->stack_size));
  frame->next = InstrIndex(0);
  if (!is_made_in_trace(*this, function)) world_.rely_on_code(function);
  ArgumentBinder(*this, function, *frame->code, *frame).bind(std::move(args));
  prepare_cells(*this, function, *frame);
  return frame;
}

namespace {

// Whether it is what torch._dynamo.disable made of one. As soon as that is imported, it does so with functions of
// optimisers.
bool is_marked_by_dynamo(PyObject* function) {
  constexpr std::string_view kFile = "/torch/_dynamo/eval_frame.py";
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  if (PyUnicode_CompareWithASCIIString(code->co_name, "_fn") != 0) return false;
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  if (!file) return PyErr_Clear(), false;
  PyObject* dict = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  PyObject* mark = dict ? PyDict_GetItemString(dict, "_torchdynamo_disable") : nullptr;
  return std::string_view(file).ends_with(kFile) && mark == Py_True;
}

}  // namespace

// Marks of functions as none that torch.compile may follow (Optimizer.zero_grad): code around them that switches
// torch.compile off, and imports it for that. What it is around is followed in its place.
std::optional<SymValue> Simulator::marked_function(PyObject* function) {
  if (!is_made_by(function, library().disable_dynamo, "inner") && !is_marked_by_dynamo(function)) return {};
  if (is_made_in_trace(*this, function)) return {};
  const bytecode::DecodedCodePtr code = services_.decode(PyFunction_GET_CODE(function));
  const size_t first_free = code->slots.size() - code->free_count;
  for (int i = 0; i < code->free_count; ++i) {
    if (PyUnicode_CompareWithASCIIString(code->slot_name(first_free + i), "fn") != 0) continue;
    PyObject* cell = PyTuple_GET_ITEM(PyFunction_GET_CLOSURE(function), i);
    PyObject* marked = PyCell_GET(cell);
    if (!marked || !PyFunction_Check(marked)) return {};
    world_.rely_on_code(function);
    const SourceId closure = world_.sources().read(SourceKind::kFunctionClosure, world_.source_of(function));
    const SourceId source = world_.sources().item(SourceKind::kTupleItem, closure, static_cast<uint32_t>(i));
    return world_.wrap(marked, world_.sources().read(SourceKind::kCellContents, source));
  }
  return {};
}

SymValue Simulator::call_function(PyObject* function, CallArgs args, bool plain) {
  if (is_in_backward()) note_frozen(FrozenRead::Kind::kCode, function, nullptr, PyFunction_GET_CODE(function));
  if (const CallableRow* row = find_callable(function)) {
    world_.rely_on_code(function);
    return call_row(*row, function, std::move(args));
  }
  if (std::optional<SymValue> marked = marked_function(function))
    return call_function(realise(*marked), std::move(args), plain);
  return follow_function(function, std::move(args), plain);
}

SymValue Simulator::follow_function(PyObject* function, CallArgs args, bool plain) {
  if (services_.runs_eagerly(function)) stop(StopReason::kNotToStatic, qualified_name(function));
  if (is_direct_function(*this, function, args)) {
    rely_on_direct_function(world_, function);
    return call_real(function, args);
  }
  if (auto why_not = why_not_capturable(*services_.decode(PyFunction_GET_CODE(function)), InstrIndex(0), true))
    stop(why_not->reason, fmt::format("{}: {}", qualified_name(function), why_not->detail));
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  if (code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE))
    stop(StopReason::kGeneratorCall, qualified_name(function));
  std::unique_ptr<SimFrame> frame = make_frame(function, std::move(args));
  if (code->co_flags & CO_GENERATOR) {
    frame->generator = true;
    SymValue generator(make_sim_generator(*this, std::move(frame)));
    if (is_in_body()) note_made_in_body(generator.get());
    return generator;
  }
  frame->plain = plain;
  return run_frame(*frame);
}

// Whether the function runs depends on what the cache keeps, which cannot be seen. Those of libraries compute plain
// values from their arguments alone and are followed; the program's own may do anything.
SymValue Simulator::call_cache(PyObject* cache, CallArgs args) {
  SymValue function(check(PyObject_GetAttrString(cache, "__wrapped__")));
  if (!PyFunction_Check(function.get()) || !is_library_namespace(PyFunction_GET_GLOBALS(function.get())))
    stop(StopReason::kUnknownCall, qualified_name(function.get()) + ", which functools.lru_cache keeps results of");
  SymValue result = call(function, std::move(args));
  if (!is_plain_data(realise(result)) && !is_identity_constant(result.get()))
    stop(StopReason::kUnsupportedValue, "what a cached function gives is an object that the cache keeps");
  return result;
}

std::optional<SymValue> Simulator::resume_generator(SimFrame& frame, SymValue sent) {
  if (frame.finished) {
    frame.return_value = SymValue();  // the first end has told it
    return std::nullopt;
  }
  if (frame.running) raise(PyExc_ValueError, "generator already executing");
  if (!frame.started && realise(sent) != Py_None)
    raise(PyExc_TypeError, "can't send non-None value to a just-started generator");
  if (frame.started) frame.push(std::move(sent));
  return run_generator(frame);
}

std::optional<SymValue> Simulator::throw_into_generator(SimFrame& frame, PyObject* exception) {
  if (frame.running) raise(PyExc_ValueError, "generator already executing");
  Ref kept = Ref::borrow(exception);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception)), exception);
  PythonRaised raised{current_break_point()};
  if (!frame.started || frame.finished || !unwind(frame, raised)) {
    frame.started = frame.finished = true;
    throw raised;
  }
  return run_generator(frame);
}

std::optional<SymValue> Simulator::run_generator(SimFrame& frame) {
  frame.started = true;
  frame.yielded = false;
  frame.running = true;
  struct Running {
    SimFrame& frame;
    ~Running() { frame.running = false; }
  } scope{frame};
  try {
    SymValue value = run_frame(frame);
    if (frame.yielded) return value;
    frame.finished = true;
    frame.return_value = std::move(value);
    return std::nullopt;
  } catch (const PythonRaised&) {
    frame.finished = true;
    // PEP 479; 3.12 does this in bytecode.
    if (PyErr_ExceptionMatches(PyExc_StopIteration)) {
      PyErr_Clear();
      PyErr_SetString(PyExc_RuntimeError, "generator raised StopIteration");
    }
    throw;
  }
}

}  // namespace framejit
