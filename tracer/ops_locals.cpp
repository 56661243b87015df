// Stack shuffling, constants, locals, cells and names.
#include "tracer/frame_builtins.h"
#include "tracer/library.h"
#include "tracer/ops.h"

namespace framejit {

SymValue& Simulator::slot(SimFrame& frame, int32_t index) {
  if (!frame.raw.empty() && frame.raw[index]) {
    frame.raw[index] = false;
    PyObject* real = frame.real_slots[index];
    graph::SourceId source = world_.sources().local(index);
    if (real)
      frame.slots[index] = world_.wrap(real, source);
    else
      world_.guard(graph::GuardKind::kUnbound, source);
  }
  return frame.slots[index];
}

SymValue Simulator::load_cell(PyObject* cell, PyObject* name) {
  static PyObject* contents_name = interned("cell_contents");
  const Outside* outside = world_.find(cell);
  PyObject* contents;
  if (!outside) {
    contents = PyCell_GET(cell);
    if (contents) return SymValue::borrow(contents);
  } else {
    World::OverlayRead written = world_.overlay(cell, contents_name);
    if (written.found && is_in_backward()) refuse_in_body("it reads a variable that was written");
    if (written.found) {
      if (written.value) return SymValue::borrow(written.value);
    } else {
      graph::SourceId source = world_.sources().read(graph::SourceKind::kCellContents, outside->source);
      contents = PyCell_GET(cell);
      if (is_in_backward()) note_frozen(FrozenRead::Kind::kCell, cell, nullptr, contents);
      if (contents) return world_.wrap(contents, source);
      world_.guard(graph::GuardKind::kUnbound, source);
    }
  }
  raise_unbound_cell(name);
}

// By name: the frame may have cells of its own and of its closure.
void Simulator::raise_unbound_cell(PyObject* name) {
  const bytecode::DecodedCode& code = *frame().code;
  const bytecode::VersionTraits& traits = bytecode::traits(code.version);
  for (size_t i = 0; i < code.slots.size(); ++i)
    if (code.slots[i].is_cell && PyUnicode_Compare(code.slot_name(static_cast<int32_t>(i)).get(), name) == 0) {
      PyErr_Format(PyExc_UnboundLocalError, traits.unbound_local_message, name);
      raise();
    }
  PyErr_Format(PyExc_NameError, traits.unbound_free_message, name);
  raise();
}

void Simulator::store_cell(PyObject* cell, SymValue value) {
  static PyObject* contents_name = interned("cell_contents");
  if (!value.null()) hold(value);
  if (!world_.find(cell)) {
    PyCell_Set(cell, value.get());
    return;
  }
  require_survives(PyCell_GET(cell));
  world_.write(cell, contents_name, value.obj);
}

namespace {

void push_with_null(SimFrame& frame, bytecode::CallLayout layout, SymValue value) {
  if (layout == bytecode::CallLayout::kNullBelow) frame.push({});
  frame.push(std::move(value));
  if (layout == bytecode::CallLayout::kNullAbove) frame.push({});
}

[[noreturn]] void raise_unbound(Simulator& sim, const SimFrame& frame, int32_t slot) {
  PyErr_Format(PyExc_UnboundLocalError, bytecode::traits(frame.code->version).unbound_local_message,
               frame.code->slot_name(slot).get());
  sim.raise();
}

PyObject* cell_of(Simulator& sim, SimFrame& frame, int32_t slot) {
  SymValue& value = sim.slot(frame, slot);
  FJ_CHECK(!value.null() && PyCell_Check(value.get()), "slot {} holds no cell", slot);
  return value.get();
}

}  // namespace

// A dictionary of globals as one of the program's objects: reads are guarded by key, writes go to the overlay.
std::optional<SymValue> Simulator::read_namespace(PyObject* dict, PyObject* name) {
  if (is_in_backward() && (world_.representation(dict) || world_.overlay(dict, name).found))
    refuse_in_body("it reads names of a module that the trace has as a dictionary");
  // The same dictionary as a value of the trace.
  if (PyObject* shadow = world_.shown_globals(dict)) {
    PyObject* value = PyDict_GetItemWithError(shadow, name);
    return value ? std::optional(SymValue::borrow(value)) : std::nullopt;
  }
  World::OverlayRead written = world_.overlay(dict, name);
  if (written.found) return written.value ? std::optional(SymValue::borrow(written.value)) : std::nullopt;
  PyObject* value = PyDict_GetItemWithError(dict, name);
  if (!value && PyErr_Occurred()) raise();
  if (is_in_backward()) note_frozen(FrozenRead::Kind::kItem, dict, name, value);
  if (!value || (is_identity_constant(value) && !world_.representation(value))) {
    world_.rely_on_item(dict, name, value);
    return value ? std::optional(SymValue::borrow(value)) : std::nullopt;
  }
  graph::SourceId source = world_.sources().constant(world_.pool().add(dict));
  return world_.wrap(value, world_.sources().keyed(graph::SourceKind::kDictItem, source, world_.pool().add(name)));
}

SymValue Simulator::load_global(const SimFrame& frame, PyObject* name) {
  if (auto value = read_namespace(frame.globals.get(), name)) return *value;
  if (frame.builtins.get() != own_builtins()) stop(StopReason::kForeignBuiltins, PyUnicode_AsUTF8(name));
  if (auto value = read_namespace(own_builtins(), name)) return *value;
  PyErr_Format(PyExc_NameError, "name '%U' is not defined", name);
  raise();
}

void Simulator::store_global(PyObject* globals, PyObject* name, Ref value) {
  require_item_survives(globals, name);
  PyObject* shadow = world_.shown_globals(globals);
  if (!shadow) return world_.write(globals, name, std::move(value));
  if (value) return check_status(PyDict_SetItem(shadow, name, value.get()));
  refuse_hole_after_clear(shadow);
  check_status(PyDict_DelItem(shadow, name));
  world_.note_removed(shadow, World::Removal::kDeleted, name);
}

namespace ops {

void handle_Nop(Simulator&, SimFrame&, const Instruction&) {}
void handle_Resume(Simulator&, SimFrame&, const Instruction&) {}
void handle_PopTop(Simulator&, SimFrame& frame, const Instruction&) { frame.pop(); }
void handle_PushNull(Simulator&, SimFrame& frame, const Instruction&) { frame.push({}); }
void handle_Copy(Simulator&, SimFrame& frame, const Instruction& instr) { frame.push(SymValue(frame.peek(instr.arg))); }
void handle_Swap(Simulator&, SimFrame& frame, const Instruction& instr) {
  std::swap(frame.peek(1), frame.peek(instr.arg));
}
void handle_Rot(Simulator&, SimFrame& frame, const Instruction& instr) {
  SymValue top = frame.pop();
  frame.stack.insert(frame.stack.end() - (instr.arg - 1), std::move(top));
}
void handle_DupTwo(Simulator&, SimFrame& frame, const Instruction&) {
  frame.push(SymValue(frame.peek(2)));
  frame.push(SymValue(frame.peek(2)));
}
void handle_EndSend(Simulator&, SimFrame& frame, const Instruction&) {
  SymValue value = frame.pop();
  frame.peek(1) = std::move(value);
}

void handle_LoadConst(Simulator&, SimFrame& frame, const Instruction& instr) {
  frame.push(SymValue::borrow(frame.code->const_at(instr.arg)));
}

void handle_LoadFast(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue& value = sim.slot(frame, instr.arg);
  if (value.null()) raise_unbound(sim, frame, instr.arg);
  frame.push(value);
}

void handle_LoadFastAndClear(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  // A comprehension saves a local of the same name: if nothing reads it later it need not be looked at, but its place
  // must.
  frame.push(sim.slot(frame, instr.arg));
  frame.slots[instr.arg] = SymValue();
}

void handle_StoreFast(Simulator&, SimFrame& frame, const Instruction& instr) {
  if (!frame.raw.empty()) frame.raw[instr.arg] = false;
  frame.slots[instr.arg] = frame.pop();
}

void handle_DeleteFast(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue& value = sim.slot(frame, instr.arg);
  if (value.null()) raise_unbound(sim, frame, instr.arg);
  value = SymValue();
}

void handle_MakeCell(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue& value = sim.slot(frame, instr.arg);
  if (!value.null()) sim.hold(value);
  value = SymValue(sim.check(PyCell_New(value.get())));
}

void handle_CopyFreeVars(Simulator&, SimFrame&, const Instruction&) {
  // Frames are made with their free variables in place (functions.cpp).
}

void handle_LoadClosure(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  // In an inlined comprehension (PEP 709) the slot of a cell may hold a local of the comprehension.
  SymValue& value = sim.slot(frame, instr.arg);
  if (value.null()) raise_unbound(sim, frame, instr.arg);
  frame.push(value);
}

void handle_LoadDeref(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  frame.push(sim.load_cell(cell_of(sim, frame, instr.arg), frame.code->slot_name(instr.arg)));
}

void handle_StoreDeref(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  PyObject* cell = cell_of(sim, frame, instr.arg);
  sim.store_cell(cell, frame.pop());
}

void handle_DeleteDeref(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  PyObject* cell = cell_of(sim, frame, instr.arg);
  sim.load_cell(cell, frame.code->slot_name(instr.arg));
  sim.store_cell(cell, SymValue());
}

void handle_LoadGlobal(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  push_with_null(frame, instr.layout(), sim.load_global(frame, frame.code->name_at(instr.arg)));
}

void handle_StoreGlobal(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue value = frame.pop();
  sim.hold(value);
  sim.store_global(frame.globals.get(), frame.code->name_at(instr.arg), value.obj);
}

void handle_DeleteGlobal(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  PyObject* name = frame.code->name_at(instr.arg);
  if (!sim.read_namespace(frame.globals.get(), name)) {
    PyErr_Format(PyExc_NameError, "name '%U' is not defined", name);
    sim.raise();
  }
  sim.store_global(frame.globals.get(), name, {});
}

void handle_LoadAssertionError(Simulator&, SimFrame& frame, const Instruction&) {
  frame.push(SymValue::borrow(PyExc_AssertionError));
}

// Class bodies and module code: their frames have a namespace of their own. A class statement breaks the graph.
#define UNSUPPORTED(name)                                             \
  void handle_##name(Simulator& sim, SimFrame&, const Instruction&) { \
    sim.stop(StopReason::kUnsupportedInstruction, #name);             \
  }
UNSUPPORTED(LoadName)
UNSUPPORTED(StoreName)
UNSUPPORTED(DeleteName)
UNSUPPORTED(LoadClassDeref)
UNSUPPORTED(LoadFromDictOrDeref)
UNSUPPORTED(LoadFromDictOrGlobals)
UNSUPPORTED(LoadLocals)
UNSUPPORTED(LoadBuildClass)
UNSUPPORTED(SetupAnnotations)
UNSUPPORTED(PrintExpr)
UNSUPPORTED(ImportStar)
#undef UNSUPPORTED

}  // namespace ops
}  // namespace framejit
