#include "tracer/simulator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/handled_exception.h"
#include "tracer/callables.h"
#include "tracer/frame_builtins.h"
#include "tracer/proxies.h"
#include "tracer/recipes.h"
#include "tracer/set_aside.h"

namespace framejit {

namespace {

constexpr size_t kMaxDepth = 180;
constexpr uint64_t kMaxInstructions = 1'500'000;
// Two are the rule where a capture breaks; each node that is refused takes two more.
constexpr int kMaxPasses = 7;

// frames_ mirrors the C++ stack: pushed and popped with run_frame.
class FrameScope {
 public:
  FrameScope(std::vector<SimFrame*>& frames, SimFrame* frame) : frames_(frames) { frames_.push_back(frame); }
  ~FrameScope() { frames_.pop_back(); }

 private:
  std::vector<SimFrame*>& frames_;
};

bool is_handling(const SimFrame& frame) { return !frame.handled.null() && frame.handled.get() != Py_None; }

// The regenerated code stands at an instruction in one way only.
bool stands_as_described(const SimFrame& frame) {
  return frame.code->stands_as_described(frame.pc, frame.blocks.size(), [&](int32_t place) {
    return static_cast<size_t>(place) >= frame.stack.size() || frame.stack[static_cast<size_t>(place)].null();
  });
}

bool is_library_file(PyObject* filename) {
  static PyObject* marker = interned("/torch/");
  return PyUnicode_Check(filename) && PyUnicode_Find(filename, marker, 0, PyUnicode_GET_LENGTH(filename), 1) >= 0;
}

}  // namespace

// A literal is met again and again at one address. What the table has once held stays: others have it borrowed.
PyObject* interned(const char* text) {
  struct Known {
    PyObject* object;
    const char* text;  // the object's
  };
  static std::array<Known, 512> by_address{};
  Known& known = by_address[(reinterpret_cast<uintptr_t>(text) * 0x9E3779B97F4A7C15u) >> 55];
  if (known.object && strcmp(known.text, text) == 0) return known.object;
  PyObject* object = PyUnicode_InternFromString(text);
  FJ_CHECK(object, "out of memory");
  known = {object, PyUnicode_AsUTF8(object)};
  return object;
}

Simulator::Simulator(const SegmentStart& start, const TracerServices& services, std::optional<StopTrace> until,
                     RefusedNode refused, const StopsOfStack& aside)
    : start_(start),
      services_(services),
      refused_frame_(services.gate.refused()),
      until_(std::move(until)),
      refused_(std::move(refused)),
      aside_(aside),
      capture_(std::make_unique<graph::Capture>()),
      world_(*capture_, services.pool, services.host, services.changing, services.number_inputs,
             [this] { return make_stand_in(*this); }) {
  capture_->of_kept_frame = start.kept;
  capture_->keeps_casts = services.keeps_casts;
}

Simulator::~Simulator() { drop_proxies(); }

void Simulator::stop(StopReason reason, std::string detail) {
  throw StopTrace{TraceStop{reason, std::move(detail), location_text()}, current_break_point()};
}

void Simulator::raise() {
  require_none_refused();
  if (crossing_) {
    PyErr_Clear();
    StopTrace stopped = std::move(*crossing_);
    crossing_.reset();
    throw stopped;
  }
  std::string reason, detail;
  if (services_.host.take_stop(&reason, &detail)) stop(stop_reason_by_name(reason), std::move(detail));
  FJ_CHECK(PyErr_Occurred(), "an error was signalled, but none is set");
  throw PythonRaised{};
}

void Simulator::raise(PyObject* type, const std::string& message) {
  PyErr_SetString(type, message.c_str());
  throw PythonRaised{};
}

// The innermost frame that can be left and entered again, outside the standard library: each frame above the
// segment's own must have been called by an instruction that only pushes its result, no frame may be handling an
// exception that the trace raised (it could not be made the handled one again), and the regenerated code must be able
// to stand at that place.
BreakPoint Simulator::current_break_point() const {
  if (inference_modes_.active()) return inference_modes_.outermost();
  if (transforms_.active()) return transforms_.outermost();
  BreakPoint best;
  for (size_t level = 0; level < frames_.size(); ++level) {
    const SimFrame& frame = *frames_[level];
    if (!frame.pc.valid()) break;  // it has not begun: the call is what is being run
    if (level > 0) {
      const SimFrame& caller = *frames_[level - 1];
      if (!frame.plain || is_handling(caller) || !stands_as_described(caller) ||
          !services_.can_enter(*caller.code, caller.pc, /*pending=*/true))
        break;
    }
    if (level > 0 && !services_.may_break_inside(*frame.code)) continue;
    if (!is_handling(frame) && stands_as_described(frame) &&
        services_.can_enter(*frame.code, frame.pc, /*pending=*/false))
      best.count = frame.pc_count;
    else if (frame.handler_point.valid())
      best = frame.handler_point;
  }
  return best;
}

void Simulator::step(SimFrame& frame) {
  if (!finalizers_.empty() && count_ > 0) require_finalizers_held();
  if (!open_generators_.empty()) close_dropped_generators();
  frame.pc = frame.next;
  frame.pc_count = ++count_;
  if (until_ && count_ == until_->point.count) {
    // What runs for the first time may fill caches and take another way the second time.
    if (current_break_point().count != count_)
      throw StopTrace{{StopReason::kCannotRebuild, "the code took another way when it was followed again", {}}, {}};
    finish_break();
    throw ReachedBreakPoint{};
  }
  if (count_ > kMaxInstructions) stop(StopReason::kTooLong);
  if (services_.notes_lines) note_line(frame);
  const Instruction& instr = frame.code->at(frame.pc);
  frame.next = InstrIndex(frame.pc.value + 1);
  if (is_in_body()) require_pure(frame, instr);
  op_handler(instr.op)(*this, frame, instr);
  if (is_in_body()) note_made_in_body(frame, instr);
}

void Simulator::note_line(const SimFrame& frame) {
  const int line = frame.code->at(frame.pc).position.line;
  if (line < 0) return;
  std::pair<std::string, int> here(PyUnicode_AsUTF8(frame.code->filename.get()), line);
  auto& lines = capture_->lines;
  if (lines.empty() || lines.back() != here) lines.push_back(std::move(here));
}

// Where the capture could end before the present exception was raised first. One that is raised again, at the end of a
// handler, keeps that point: its traceback begins there.
BreakPoint Simulator::raise_origin() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Ref held_type = Ref::steal(type), held = Ref::steal(value), held_traceback = Ref::steal(traceback);
  auto [it, first] = raise_origins_.try_emplace(value, BreakPoint{});
  if (first) {
    keep(Ref::borrow(value));
    it->second = current_break_point();
    chain_context(value);
  }
  const BreakPoint origin = it->second;
  PyErr_Restore(held_type.release(), held.release(), held_traceback.release());
  return origin;
}

const BreakPoint* Simulator::raised_at(PyObject* exception) const {
  auto found = raise_origins_.find(exception);
  return found == raise_origins_.end() ? nullptr : &found->second;
}

void Simulator::stop_before_raise(StopReason reason, const BreakPoint& point) {
  throw StopTrace{TraceStop{reason, "the traceback of an exception that the trace raised", location_text()}, point};
}

void Simulator::set_traceback(PyObject* exception, SymValue traceback) {
  PyObject* obj = realise(traceback);
  if (is_sim_traceback(obj) && raised_at(exception)) return;
  if (obj != Py_None || is_outside_opaque(exception)) stop(StopReason::kUnsupportedAttribute, "a traceback is set");
  raise_origins_.erase(exception);
  PyException_SetTraceback(exception, Py_None);
}

// What the thread handled when the segment began becomes the context of an exception, or is raised again.
void Simulator::require_nothing_handled() {
  if (is_handling_exception()) stop(StopReason::kHandledException);
  world_.guard(graph::GuardKind::kNothingHandled, {});
}

// What the interpreter does when an exception is raised while another is handled.
void Simulator::chain_context(PyObject* exception) {
  PyObject* handled = nullptr;
  for (size_t i = frames_.size(); i-- > 0 && !handled;)
    if (is_handling(*frames_[i])) handled = frames_[i]->handled.get();
  if (!handled) return require_nothing_handled();
  if (handled == exception) return;
  for (Ref at = Ref::borrow(handled); at;) {
    Ref context = Ref::steal(PyException_GetContext(at.get()));
    if (context.get() == exception) {
      PyException_SetContext(at.get(), nullptr);
      break;
    }
    at = std::move(context);
  }
  PyException_SetContext(exception, Ref::borrow(handled).release());
}

void Simulator::note_callee(PyObject* code) {
  const graph::ConstId id = services_.pool.add(code);
  std::vector<graph::ConstId>& known = capture_->callees;
  if (std::find(known.begin(), known.end(), id) == known.end()) known.push_back(id);
}

SymValue Simulator::run_frame(SimFrame& frame) {
  if (frames_.size() >= kMaxDepth) stop(StopReason::kDeepRecursion, fmt::format("{} frames", frames_.size()));
  if (!frame.cached_location.valid()) frame.library = is_library_file(frame.code->filename.get());
  const bool handles = handles_exceptions(*frame.code);
  if (handles && is_in_backward()) refuse_in_body("an exception may be handled");
  capture_->has_handlers = capture_->has_handlers || handles;
  if (!frames_.empty()) note_callee(frame.code->code);
  FrameScope scope(frames_, &frame);
  while (true) {
    try {
      while (!frame.returned && !frame.yielded) {
        step(frame);
        require_none_refused();
      }
      return std::move(frame.result);
    } catch (PythonRaised& raised) {
      require_none_refused();
      if (!raised.origin.valid()) raised.origin = raise_origin();
      if (unwind(frame, raised)) continue;
      keep_generators();
      throw;
    } catch (StopTrace& stopped) {
      if (!stopped.point.valid()) stopped.point = current_break_point();
      if (stopped.stop.location.empty()) stopped.stop.location = location_text();
      throw;
    }
  }
}

// Hands the exception to the frame's innermost handler around `pc`. False: there is none.
bool Simulator::unwind(SimFrame& frame, const PythonRaised& raised) {
  PyObject *type, *value, *traceback;
  const bytecode::Instruction& instr = frame.code->at(frame.pc);
  if (frame.code->regions.empty() && frame.blocks.empty()) return false;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Ref type_ref = Ref::steal(type), value_ref = Ref::steal(value), traceback_ref = Ref::steal(traceback);
  auto restore = [&] { PyErr_Restore(type_ref.release(), value_ref.release(), traceback_ref.release()); };

  if (!frame.code->regions.empty()) {
    if (instr.region < 0) return restore(), false;
    const bytecode::ExceptionRegion& region = frame.code->regions[instr.region];
    frame.stack.resize(region.depth);
    if (region.push_lasti) frame.push(SymValue(Ref::steal(PyLong_FromLong(instr.offset / 2))));
    frame.push(SymValue(value_ref));
    frame.next = region.handler;
    frame.handler_point = raised.origin;
    return true;
  }
  while (!frame.blocks.empty()) {
    SimBlock block = frame.blocks.back();
    frame.blocks.pop_back();
    if (block.is_handler) {
      frame.handled = frame.stack[block.level + 1];
      frame.stack.resize(block.level);
      continue;
    }
    frame.stack.resize(block.level);
    frame.blocks.push_back({true, {}, frame.stack.size()});
    // [previous traceback, value, type, traceback, value, type]
    SymValue none = SymValue::borrow(Py_None);
    SymValue previous = frame.handled.null() ? none : frame.handled;
    frame.push(none);
    frame.push(previous);
    frame.push(previous.get() == Py_None ? none
                                         : SymValue::borrow(reinterpret_cast<PyObject*>(Py_TYPE(previous.get()))));
    frame.push(traceback_ref ? SymValue(traceback_ref) : none);
    frame.push(SymValue(value_ref));
    frame.push(SymValue(type_ref));
    frame.handled = SymValue(value_ref);
    frame.next = block.handler;
    frame.handler_point = raised.origin;
    return true;
  }
  restore();
  return false;
}

void Simulator::prepare_root() {
  initial_global_state_ = services_.host.global_state();
  world_.guard(graph::GuardKind::kGlobalState, {}, nullptr, initial_global_state_);
  device_contexts_.begin(services_.host.device_contexts());
  if (PyObject* torch = PyDict_GetItemString(PyImport_GetModuleDict(), "torch")) {
    initial_grad_mode_ = Ref::steal(PyObject_CallMethod(torch, "is_grad_enabled", nullptr));
    PyErr_Clear();
  }
}

void Simulator::drop_locals(SimFrame& root) {
  if (open_generators_.empty()) return;
  FrameScope scope(frames_, &root);  // what a generator still runs is seen to run here
  root.slots.clear();
  root.stack.clear();
  close_dropped_generators();
}

// A traceback may keep the real frame, which would then keep what the program has let go of.
void Simulator::note_left_slots(const SimFrame& root) {
  for (uint32_t i = 0; i < root.slots.size(); ++i) {
    PyObject* before = start_.slots[i];
    if (root.raw[i] || !before || root.code->slots[i].is_cell || root.code->slots[i].is_free) continue;
    PyObject* now = root.slots[i].get();
    const bool kept = now && (world_.stands_for(now) == before || now == world_.representation(before));
    if (!kept) capture_->left_slots.push_back(i);
  }
}

SymValue Simulator::wrap_stack(PyObject* real, size_t index) {
  const graph::SourceId source = world_.sources().stack(index);
  if (auto aside = aside_.find(index); aside != aside_.end()) return world_.set_aside(real, source, aside->second);
  try {
    return world_.wrap(real, source);
  } catch (StopTrace& stopped) {
    stopped.stack_slot = index;
    throw;
  }
}

std::unique_ptr<graph::Capture> Simulator::run() {
  const ShutGate shut(services_.gate);
  services_.gate.take_refused();
  services_.host.set_gate(&services_.gate);
  services_.host.begin(capture_.get(), refused_);
  session_.host = &services_.host;
  prepare_root();
  watch_finalizers();  // before the trace refers to them

  SimFrame root;
  root.code = start_.code;
  root.globals = Ref::borrow(start_.globals);
  root.builtins = Ref::borrow(start_.builtins);
  rely_on_builtins(root);
  root.function = Ref::borrow(start_.function);
  root.next = start_.at;
  root.slots.resize(start_.code->slots.size());
  root.raw.assign(root.slots.size(), true);
  for (const bytecode::Block& block : start_.code->blocks(start_.at)) {
    FJ_CHECK(block.kind == bytecode::Block::Kind::kFinally, "a segment starts inside an exception handler");
    root.blocks.push_back({false, block.handler, static_cast<size_t>(block.level)});
  }
  root.real_slots = start_.slots;
  for (size_t i = 0; i < start_.stack_depth; ++i) {
    PyObject* real = start_.stack[i];
    root.push(real ? wrap_stack(real, i) : SymValue());
  }
  try {
    SymValue result = run_frame(root);
    if (!start_.kept) {
      note_left_slots(root);
      drop_locals(root);
    }
    finish_return(std::move(result), root);
  } catch (const ReachedBreakPoint&) {
  } catch (const PythonRaised& raised) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    Ref error = Ref::steal(value), t = Ref::steal(type), tb = Ref::steal(traceback);
    Ref text = Ref::steal(PyObject_Str(error.get()));
    PyErr_Clear();
    services_.gate.take_refused();
    std::string detail = Py_TYPE(error.get())->tp_name;
    if (text) detail += std::string(": ") + PyUnicode_AsUTF8(text.get());
    throw StopTrace{TraceStop{StopReason::kUncaughtException, detail, {}}, raised.origin};
  }
  require_none_refused();
  return std::move(capture_);
}

void Simulator::mark_location() { services_.host.set_location(location_of(frames_.size() - 1)); }

graph::LocationId Simulator::location_of(size_t index) {
  while (index > 0 && frames_[index]->library) --index;
  SimFrame& frame = *frames_[index];
  int line = frame.code->at(frame.pc).position.line;
  if (frame.cached_line == line && frame.cached_location.valid()) return frame.cached_location;
  graph::LocationId caller = index > 0 ? location_of(index - 1) : graph::LocationId();
  frame.cached_line = line;
  frame.cached_location = capture_->graph.intern_location(PyUnicode_AsUTF8(frame.code->filename.get()),
                                                          PyUnicode_AsUTF8(frame.code->name.get()), line, caller);
  return frame.cached_location;
}

std::string Simulator::location_text() {
  if (frames_.empty()) return stop_location(*start_.code, start_.at);
  size_t index = frames_.size() - 1;
  while (index > 0 && (frames_[index]->library || !frames_[index]->pc.valid())) --index;
  return stop_location(*frames_[index]->code, frames_[index]->pc);
}

// Whether the object is more than its value: an instance of a class. typing caches the types that it gives arguments.
static bool has_identity(PyObject* obj) {
  return (Py_TYPE(obj)->tp_flags & Py_TPFLAGS_HEAPTYPE) && !is_plain_data(obj) && !is_identity_constant(obj) &&
         !is_typing_alias(obj);
}

SymValue Simulator::from_real(Ref result) {
  PyObject* obj = result.get();
  if (is_tensor(obj)) {
    if (!services_.host.is_fake(obj))
      stop(StopReason::kUnknownTensor, "a call gave a tensor that was not made in the trace");
    if (transforms_.first().valid()) note_native_origin(obj);
    return SymValue(std::move(result));
  }
  if (world_.is_number(obj)) return SymValue(std::move(result));
  // The program's own object stands behind what the trace has for it.
  if (PyObject* known = world_.representation(obj)) return SymValue::borrow(known);
  if (!has_identity(obj)) return SymValue(std::move(result));
  if (Py_REFCNT(obj) == 1) made_.insert(obj);
  // Neither made in the trace nor reached by a source: a copy of it would be another object, and nothing guards it.
  else if (!made_.count(obj) && !world_.find(obj))
    stop(StopReason::kUnsupportedValue, fmt::format("a '{}' that C code gave", Py_TYPE(obj)->tp_name));
  return SymValue(std::move(result));
}

SymValue Simulator::from_outside(Ref result) {
  PyObject* obj = result.get();
  const bool changes = PyDict_Check(obj) || PyList_Check(obj) || PyAnySet_Check(obj) || PyByteArray_Check(obj);
  if (changes && Py_REFCNT(obj) > 1 && !world_.find(obj))  // somebody else holds it: a copy would not do
    stop(StopReason::kUnsupportedAttribute, fmt::format("a '{}' that belongs to the object", Py_TYPE(obj)->tp_name));
  return from_real(std::move(result));
}

void Simulator::record_state_call(PyObject* setter, const std::vector<PyObject*>& args) {
  Ref tuple = Ref::steal(PyTuple_New(args.size()));
  for (size_t i = 0; i < args.size(); ++i) {
    Py_INCREF(args[i]);
    PyTuple_SET_ITEM(tuple.get(), i, args[i]);
  }
  state_calls_.emplace_back(Ref::borrow(setter), std::move(tuple));
}

void Simulator::note_default_dtype(PyObject* before, PyObject* setter, PyObject* now) {
  if (!initial_default_dtype_) initial_default_dtype_ = Ref::borrow(before);
  default_dtype_call_ = {Ref::borrow(setter), Ref::borrow(now)};
}

void Simulator::finish_return(SymValue value, const SimFrame& root) {
  require_no_open_generator();
  if (transforms_.active()) stop(StopReason::kCannotRebuild, "a level of a function transform");
  if (inference_modes_.active()) stop(StopReason::kCannotRebuild, "inference mode that was entered");
  capture_->exit = graph::ExitKind::kReturn;
  RecipeBuilder(*this).finish_return(std::move(value), start_.kept ? &root : nullptr);
}

void Simulator::finish_break() {
  require_no_open_generator();
  require_same_builtins();
  capture_->exit = graph::ExitKind::kBreak;
  const TraceStop& stop = until_->stop;
  capture_->stop_reason = static_cast<uint16_t>(stop.reason);
  capture_->stop_detail = stop.detail;
  capture_->stop_location = stop.location;
  capture_->may_reach_python = stop_reason_info(stop.reason).may_reach_python;
  RecipeBuilder(*this).finish_break();
}

// Where that fails, the next pass stops at the import like any other.
static void import_module(const std::string& name, FrameGate& gate) {
  const OpenGate open(gate);
  if (!Ref::steal(PyImport_ImportModule(name.c_str()))) PyErr_Clear();
}

Result<std::unique_ptr<graph::Capture>, TraceStop> capture_segment(const SegmentStart& start,
                                                                   const TracerServices& services) {
  initialise_callables();
  std::optional<StopTrace> until;
  RefusedNode refused;
  TraceStop last;  // of the passes so far
  // What a pass relied on to come to its stop: another value there might not stop, so the entry must not serve it.
  std::vector<std::unique_ptr<graph::Capture>> stopped_passes;
  std::string wanted;
  std::unordered_set<std::string> imported;
  StopsOfStack aside;
  for (int attempt = 0; attempt < kMaxPasses; ++attempt) {
    if (!wanted.empty()) {  // with the module there, all is followed from the start
      import_module(std::exchange(wanted, {}), services.gate);
      until.reset();
      refused = {};
      stopped_passes.clear();
      attempt = 0;
    }
    Simulator pass(start, services, until, refused, aside);
    try {
      std::unique_ptr<graph::Capture> capture = pass.run();
      for (const auto& stopped : stopped_passes) graph::add_guards_of(*capture, *stopped);
      return capture;
    } catch (StopTrace& stopped) {
      PyErr_Clear();
      if (!stopped.import.empty() && imported.insert(stopped.import).second) {
        wanted = std::move(stopped.import);
        continue;
      }
      if (stopped.stack_slot) {  // it came to no instruction, and the next relies on less
        aside.emplace(*stopped.stack_slot, std::move(stopped.stop));
        --attempt;
        continue;
      }
      stopped_passes.push_back(pass.take_capture());
      last = stopped.stop;
      if (stopped.refused.id.valid() && (!refused.id.valid() || stopped.refused.id < refused.id)) {
        refused = std::move(stopped.refused);
        until.reset();
        continue;
      }
      if (!stopped.point.valid()) return Err{std::move(stopped.stop)};
      // A value that cannot be rebuilt at the break: the second stop lies before the first one.
      if (until && stopped.point.count >= until->point.count) return Err{std::move(stopped.stop)};
      until = std::move(stopped);
    } catch (const PythonRaised&) {
      PyErr_Clear();
      return Err{TraceStop{StopReason::kUncaughtException, "outside of a frame", {}}};
    }
  }
  return Err{std::move(last)};
}

}  // namespace framejit
