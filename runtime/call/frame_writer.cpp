#include "runtime/call/frame_writer.h"

namespace framejit::runtime {

using bytecode::InstrIndex;

bool build_frame(const graph::FrameExit& frame, Replay& replay, FrameValues* values) {
  values->function = replay.build(frame.function);
  if (!values->function && PyErr_Occurred()) return false;
  values->locals.reserve(frame.locals.size());
  for (auto [slot, recipe] : frame.locals) {
    values->locals.emplace_back(slot, replay.build(recipe));
    if (!values->locals.back().second && PyErr_Occurred()) return false;
  }
  values->stack.reserve(frame.stack.size());
  for (graph::RecipeId recipe : frame.stack) {
    values->stack.push_back(replay.build(recipe));
    if (!values->stack.back() && PyErr_Occurred()) return false;
  }
  return true;
}

void unbind_method(const bytecode::Decoded& code, bytecode::InstrIndex call, std::vector<Ref>& stack) {
  using bytecode::CallLayout;
  const bytecode::Instruction& instr = code.at(call);
  if (instr.op != bytecode::SimOp::kCall || instr.layout() == CallLayout::kPlain) return;
  const size_t above = instr.arg + (instr.extra == bytecode::kKeywordsOnStack);
  if (stack.size() < above + 2) return;
  Ref& lower = stack[stack.size() - above - 2];
  Ref& upper = stack[stack.size() - above - 1];
  const bool null_above = instr.layout() == CallLayout::kNullAbove;
  Ref& bound = null_above ? lower : upper;
  if (!bound || (null_above ? upper : lower) || !PyCFunction_Check(bound.get())) return;
  PyObject* self = PyCFunction_GET_SELF(bound.get());
  PyMethodDef* method = reinterpret_cast<PyCFunctionObject*>(bound.get())->m_ml;
  if (!self || code.slot_kind(call, static_cast<size_t>(&(null_above ? upper : lower) - stack.data())) !=
                   bytecode::SlotKind::kMethod)
    return;
  Ref name = Ref::steal(PyUnicode_InternFromString(method->ml_name));
  PyObject* found = name ? _PyType_Lookup(Py_TYPE(self), name.get()) : nullptr;
  if (!found || Py_TYPE(found) != &PyMethodDescr_Type ||
      reinterpret_cast<PyMethodDescrObject*>(found)->d_method != method) {
    PyErr_Clear();
    return;
  }
  upper = Ref::borrow(self);
  lower = Ref::borrow(found);
}

void write_locals(const FrameView& view, std::vector<std::pair<uint32_t, Ref>>& locals) {
  for (auto& [slot, value] : locals)
    if (view.localsplus[slot] != value.get()) framejit_slot_set(&view.localsplus[slot], value.release());
}

void write_stack(const FrameView& view, int first, std::vector<Ref>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    PyObject** slot = &view.stack[first + static_cast<int>(i)];
    if (*slot != values[i].get()) framejit_slot_set(slot, values[i].release());
  }
}

void make_poppable(const FrameView& view, int first, int end) {
  for (int i = first; i < end; ++i)
    if (!view.stack[i]) {
      Py_INCREF(Py_None);
      view.stack[i] = Py_None;
    }
}

namespace {

Ref handled_exception() {
  PyObject *type, *value, *traceback;
  PyErr_GetExcInfo(&type, &value, &traceback);
  Ref held_type = Ref::steal(type), held_traceback = Ref::steal(traceback);
  return Ref::steal(value);
}

void set_handled_exception(const Ref& value) {
  PyObject* exception = value.get() ? value.get() : Py_None;
  Py_INCREF(exception);
  PyErr_SetExcInfo(nullptr, exception, nullptr);
}

}  // namespace

void move_handled_exception(const FrameView& view, const codegen::TwinLayout& layout, InstrIndex from, InstrIndex to,
                            std::vector<Ref>* incoming) {
  const std::vector<int32_t> left = layout.handled_slots(from);
  const std::vector<int32_t> entered = to.valid() ? layout.handled_slots(to) : std::vector<int32_t>();
  if (left.empty() && entered.empty()) return;
  size_t common = 0;
  while (common < left.size() && common < entered.size() && left[common] == entered[common]) ++common;
  Ref handled = common < left.size() ? Ref::borrow(view.stack[left[common]]) : handled_exception();
  for (size_t i = common; i < entered.size() && incoming; ++i) {
    const size_t slot = static_cast<size_t>(entered[i]);
    (*incoming)[slot] = handled ? handled : Ref::borrow(Py_None);
    handled = (*incoming)[slot + 1];
  }
  set_handled_exception(handled);
}

}  // namespace framejit::runtime
