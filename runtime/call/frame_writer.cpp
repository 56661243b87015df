#include "runtime/call/frame_writer.h"

#include "bytecode/versions.h"

namespace framejit::runtime {

using bytecode::InstrIndex;

bool build_locals(const std::vector<std::pair<uint32_t, graph::RecipeId>>& recipes, Replay& replay,
                  std::vector<std::pair<uint32_t, Ref>>* locals) {
  locals->reserve(recipes.size());
  for (auto [slot, recipe] : recipes) {
    locals->emplace_back(slot, replay.build(recipe));
    if (!locals->back().second && PyErr_Occurred()) return false;
  }
  return true;
}

bool build_frame(const graph::FrameExit& frame, Replay& replay, FrameValues* values) {
  values->function = replay.build(frame.function);
  if (!values->function && PyErr_Occurred()) return false;
  if (!build_locals(frame.locals, replay, &values->locals)) return false;
  values->stack.reserve(frame.stack.size());
  for (graph::RecipeId recipe : frame.stack) {
    values->stack.push_back(replay.build(recipe));
    if (!values->stack.back() && PyErr_Occurred()) return false;
  }
  return true;
}

namespace {

// What the type has for this bound method of C code; null if LoadMethod would not have come to it.
Ref unbound(PyObject* bound) {
  if (!bound || !PyCFunction_Check(bound)) return nullptr;
  PyObject* self = PyCFunction_GET_SELF(bound);
  const PyMethodDef* method = reinterpret_cast<PyCFunctionObject*>(bound)->m_ml;
  Ref name = self ? Ref::steal(PyUnicode_InternFromString(method->ml_name)) : nullptr;
  PyObject* found = name ? _PyType_Lookup(Py_TYPE(self), name.get()) : nullptr;
  PyErr_Clear();
  if (!found || Py_TYPE(found) != &PyMethodDescr_Type ||
      reinterpret_cast<PyMethodDescrObject*>(found)->d_method != method)
    return nullptr;
  return Ref::borrow(found);
}

// get(place), set(place, value): of the slots below `depth`.
template <class Get, class Set>
void unbind_each(const bytecode::Decoded& code, InstrIndex at, size_t depth, Get get, Set set) {
  const bool null_above = bytecode::traits(code.version).call_layout == bytecode::CallLayout::kNullAbove;
  for (int32_t null : code.null_slots(at)) {
    const size_t lower = static_cast<size_t>(null_above ? null - 1 : null), upper = lower + 1;
    const auto place = static_cast<size_t>(null);
    if (upper >= depth || code.slot_kind(at, place) != bytecode::SlotKind::kMethod || get(place)) continue;
    PyObject* bound = get(null_above ? lower : upper);
    Ref function = unbound(bound);
    if (!function) continue;
    Ref self = Ref::borrow(PyCFunction_GET_SELF(bound));
    set(lower, std::move(function));
    set(upper, std::move(self));
  }
}

}  // namespace

void unbind_methods(const bytecode::Decoded& code, InstrIndex at, std::vector<Ref>& stack) {
  unbind_each(
      code, at, stack.size(), [&](size_t i) { return stack[i].get(); },
      [&](size_t i, Ref value) { stack[i] = std::move(value); });
}

void unbind_methods(const bytecode::Decoded& code, InstrIndex at, const FrameView& view) {
  unbind_each(
      code, at, static_cast<size_t>(code.stack_depth(at)), [&](size_t i) { return view.stack[i]; },
      [&](size_t i, Ref value) { framejit_slot_set(&view.stack[i], value.release()); });
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
