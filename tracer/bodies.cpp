// What may run in a body of control flow. The lists say what is known to have no effects; all else stops.
#include <algorithm>
#include <array>

#include "tracer/builtins.h"
#include "tracer/proxies.h"

namespace framejit {

using bytecode::SimOp;

void Simulator::refuse_in_body(const std::string& what) { stop(StopReason::kControlFlow, what); }

void Simulator::leave_body() {
  --body_depth_;
  std::erase_if(made_in_body_, [this](const auto& made) { return made.second.second > body_depth_; });
}

SymValue Simulator::made_by(PyObject* callable, SymValue result) {
  if (is_in_body() && reinterpret_cast<PyObject*>(Py_TYPE(result.get())) == callable) note_made_in_body(result.get());
  return result;
}

void Simulator::require_no_iterator(const SymValue& value) {
  if (PyIter_Check(value.get()) && !is_made_in_body(value.get())) refuse_in_body("an iterator is advanced");
}

namespace {

bool is_immutable(PyObject* obj) {
  return PyLong_Check(obj) || PyFloat_Check(obj) || PyComplex_Check(obj) || PyUnicode_Check(obj) ||
         PyBytes_Check(obj) || PyTuple_Check(obj) || obj == Py_None;
}

bool writes_a_name_or_object(SimOp op) {
  switch (op) {
    case SimOp::kStoreName:
    case SimOp::kDeleteName:
    case SimOp::kStoreGlobal:
    case SimOp::kDeleteGlobal:
    case SimOp::kStoreAttr:
    case SimOp::kDeleteAttr:
    case SimOp::kDeleteSubscr:
    case SimOp::kLoadBuildClass:
    case SimOp::kSetupAnnotations:
    case SimOp::kPrintExpr:
      return true;
    default:
      return false;
  }
}

// Builtins of the table that tell something, or make something new of what is no iterator.
constexpr std::array kPureHandlers = {
    &builtins::call_isinstance,
    &builtins::call_issubclass,
    &builtins::call_getattr,
    &builtins::call_hasattr,
    &builtins::call_len,
    &builtins::call_super,
    &builtins::call_type_of,
    &builtins::call_bool,
    &builtins::call_number,
    &builtins::call_tuple,
    &builtins::call_list,
    &builtins::call_sum,
    &builtins::call_min,
    &builtins::call_max,
    &builtins::call_any,
    &builtins::call_all,
    &builtins::call_sorted,
    &builtins::call_reversed,
    &builtins::call_next,
    &builtins::call_has_torch_function,
    &builtins::call_is_mode_enabled,
    &builtins::call_callable,
    &builtins::call_question,
    &builtins::call_true,
    &builtins::call_false,
    &builtins::call_none,
    &builtins::call_overload,
    &builtins::call_overload_packet,
    &builtins::call_is_inference,
    &builtins::call_iter,
    &builtins::call_checkpoint,
    &builtins::call_cond,
    &builtins::call_while_loop,
    &builtins::call_object_getattribute,
    &builtins::call_object_new,
    &builtins::call_object_init,
    &builtins::call_type_call,
};

bool is_of_operator_module(PyObject* function) {
  PyObject* module = PyCFunction_Check(function) ? reinterpret_cast<PyCFunctionObject*>(function)->m_module : nullptr;
  return module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "_operator") == 0;
}

constexpr std::array<std::string_view, 9> kReadingMethods = {
    "get", "keys", "values", "items", "copy", "count", "index", "__getitem__", "__len__",
};

bool is_reading_method(std::string_view name) {
  return std::find(kReadingMethods.begin(), kReadingMethods.end(), name) != kReadingMethods.end();
}

bool is_container_method(std::string_view path) {
  for (std::string_view type : {"builtins.list.", "builtins.dict.", "builtins.set."})
    if (path.substr(0, type.size()) == type) return true;
  return false;
}

bool is_pure_container_method(const Simulator& sim, const CallableRow& row, PyObject* self) {
  const std::string_view path = row.path;
  if (!self || !is_container_method(path)) return false;
  return sim.is_made_in_body(self) || is_reading_method(path.substr(path.rfind('.') + 1));
}

}  // namespace

// Nothing that was there before can be what these leave on the stack.
void Simulator::note_made_in_body(const SimFrame& frame, const Instruction& instr) {
  const bool makes = instr.op == SimOp::kBuildList || instr.op == SimOp::kBuildMap || instr.op == SimOp::kBuildSet;
  if (makes && !frame.stack.empty() && !frame.stack.back().null()) note_made_in_body(frame.stack.back().get());
}

void Simulator::require_pure(SimFrame& frame, const Instruction& instr) {
  const auto top = [&](size_t depth) { return frame.stack[frame.stack.size() - 1 - depth]; };
  auto sets_own_attr = [&] {
    SymValue owner = top(0);
    return instr.op == SimOp::kStoreAttr && is_made_in_body(realise(owner));
  };
  if (writes_a_name_or_object(instr.op) && !sets_own_attr())
    refuse_in_body("a name, an attribute or an item is written");
  switch (instr.op) {
    case SimOp::kStoreDeref:
    case SimOp::kDeleteDeref:
      if (frame.code->slots[instr.arg].is_free) refuse_in_body("a variable of an outer function is written");
      break;
    case SimOp::kStoreSubscr:
    case SimOp::kStoreSlice:
      if (SymValue container = top(instr.op == SimOp::kStoreSubscr ? 1 : 2);
          !is_tensor(realise(container)) && !is_made_in_body(container.get()))
        refuse_in_body("a name, an attribute or an item is written");
      break;
    case SimOp::kBinaryOp:
      if (SymValue left = top(1); (instr.aux & 1) && !is_tensor(realise(left)) && !is_immutable(left.get()))
        refuse_in_body("an object is changed in place");
      break;
    case SimOp::kContainsOp: {
      SymValue container = top(0);
      realise(container);
      require_no_iterator(container);
      break;
    }
    default:
      break;
  }
}

void Simulator::require_pure(const CallableRow& row, PyObject* self, CallArgs& args) {
  const bool listed = std::find(kPureHandlers.begin(), kPureHandlers.end(), row.handler) != kPureHandlers.end();
  const bool pure = row.kind == CallableKind::kPure || row.kind == CallableKind::kRecord ||
                    row.kind == CallableKind::kIterate || row.kind == CallableKind::kBreak ||
                    (row.kind == CallableKind::kState && may_set_state()) ||
                    (row.kind == CallableKind::kHandler && listed) || is_pure_container_method(*this, row, self);
  if (!pure) refuse_in_body(std::string(row.path) + " is called");
  for (SymValue& value : args.positional) {
    realise(value);
    require_no_iterator(value);
  }
}

// `key`: what the table has for it, or the descriptor of a method of `self`.
void Simulator::require_pure_builtin(PyObject* key, PyObject* self, CallArgs& args) {
  if (const CallableRow* row = find_callable(key)) return require_pure(*row, self, args);
  if (self && is_tensor(self)) return;
  for (SymValue& value : args.positional) {
    realise(value);
    require_no_iterator(value);
  }
  if (!self) {
    // Methods called through their type have their self among the arguments.
    const bool method = PyObject_TypeCheck(key, &PyMethodDescr_Type) || Py_TYPE(key) == &PyWrapperDescr_Type;
    if (!method && is_of_operator_module(key))
      for (const SymValue& value : args.positional)
        if (!is_tensor(value.get()) && !is_immutable(value.get())) refuse_in_body("a function of operator is called");
    if (!method || args.positional.empty()) return;
    self = args.positional[0].get();
    if (is_tensor(self)) return;
  }
  const bool named = PyObject_TypeCheck(key, &PyMethodDescr_Type) || Py_TYPE(key) == &PyWrapperDescr_Type;
  const std::string_view name = named ? PyUnicode_AsUTF8(PyDescr_NAME(key)) : "";
  if (!is_immutable(self) && !(is_reading_method(name) && !is_sim_generator(self)))
    refuse_in_body("a method of a '" + std::string(Py_TYPE(self)->tp_name) + "' is called");
}

}  // namespace framejit
