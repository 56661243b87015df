#include "tracer/context_vars.h"

#include <algorithm>

#include "base/once.h"
#include "tracer/builtins.h"
#include "tracer/simulator.h"

namespace framejit {

using graph::GuardKind;
using graph::SourceId;
using graph::SourceKind;

ContextVars::~ContextVars() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  for (auto it = set_.rbegin(); it != set_.rend(); ++it)
    if (PyContextVar_Reset(it->var.get(), it->token.get()) < 0) PyErr_WriteUnraisable(it->var.get());
  PyErr_Restore(type, value, traceback);
}

Ref ContextVars::set(PyObject* var, PyObject* value, BreakPoint before) {
  const bool own = is_set(var);
  Ref token = Ref::steal(PyContextVar_Set(var, value));
  if (token && own) replaced_own_.push_back(token);
  if (token) set_.push_back({Ref::borrow(var), token, before});
  return token;
}

bool ContextVars::reset(PyObject* var, PyObject* token) {
  if (PyContextVar_Reset(var, token) < 0) return false;
  std::erase_if(set_, [&](const Set& each) { return each.token.get() == token; });
  return true;
}

bool ContextVars::is_set(PyObject* var) const {
  return std::any_of(set_.begin(), set_.end(), [&](const Set& each) { return each.var.get() == var; });
}

bool ContextVars::has_token(PyObject* token) const {
  return std::any_of(set_.begin(), set_.end(), [&](const Set& each) { return each.token.get() == token; });
}

bool ContextVars::replaced_own(PyObject* token) const {
  return std::any_of(replaced_own_.begin(), replaced_own_.end(), [&](const Ref& each) { return each.get() == token; });
}

namespace builtins {
namespace {

// The variable itself, guarded: what is read and set depends on which one it is.
PyObject* context_var(Simulator& sim, SymValue& self) {
  PyObject* var = sim.realise(self);
  if (const Outside* outside = sim.world().find(var)) sim.world().guard(GuardKind::kIdIs, outside->source, var);
  return var;
}

SymValue constant(Simulator& sim, PyObject* obj) {
  return sim.world().wrap(obj, sim.world().sources().constant(sim.world().pool().add(obj)));
}

// What the program has set, under a guard; null if it has set nothing.
std::optional<SymValue> set_by_program(Simulator& sim, PyObject* var, PyObject* value) {
  World& world = sim.world();
  const SourceId source =
      world.sources().read(SourceKind::kContextVar, world.sources().constant(world.pool().add(var)));
  if (value) return world.wrap(value, source);
  world.guard(GuardKind::kUnbound, source);
  return std::nullopt;
}

std::optional<SymValue> read(Simulator& sim, PyObject* var) {
  PyObject* const unset = once_under_lock([] { return PyList_New(0); });
  PyObject* found = nullptr;
  sim.check_status(PyContextVar_Get(var, unset, &found));
  Ref value = Ref::steal(found);
  if (sim.context_vars().is_set(var)) return SymValue(std::move(value));
  return set_by_program(sim, var, value.get() == unset ? nullptr : value.get());
}

}  // namespace

SymValue old_value(Simulator& sim, PyObject* token) {
  Ref value = sim.check(PyObject_GetAttrString(token, "old_value"));
  if (sim.context_vars().replaced_own(token)) return SymValue(std::move(value));
  Ref var = sim.check(PyObject_GetAttrString(token, "var"));
  Ref missing = sim.check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(token)), "MISSING"));
  const bool was_set = value.get() != missing.get();
  auto known = set_by_program(sim, var.get(), was_set ? sim.keep(value) : nullptr);
  return known ? *known : SymValue(std::move(value));
}

SymValue call_context_var_get(Simulator& sim, PyObject* callable, CallArgs args) {
  if (args.has_keywords() || args.positional.empty() || args.positional.size() > 2)
    sim.stop(StopReason::kUnknownCall, "ContextVar.get with other arguments");
  PyObject* var = context_var(sim, args.positional[0]);
  if (auto value = read(sim, var)) return *value;
  if (args.positional.size() == 2) return args.positional[1];
  Ref value = sim.check(PyObject_CallFunctionObjArgs(callable, var, nullptr));  // its own default, or LookupError
  return constant(sim, value.get());
}

SymValue call_context_var_set(Simulator& sim, PyObject*, CallArgs args) {
  if (args.has_keywords() || args.positional.size() != 2)
    sim.stop(StopReason::kUnknownCall, "ContextVar.set with other arguments");
  PyObject* var = context_var(sim, args.positional[0]);
  Ref token = sim.context_vars().set(var, sim.realise(args.positional[1]), sim.current_break_point());
  if (!token) sim.raise();
  sim.note_native_origin(token.get());
  return SymValue(std::move(token));
}

SymValue call_context_var_reset(Simulator& sim, PyObject*, CallArgs args) {
  if (args.has_keywords() || args.positional.size() != 2 ||
      !sim.context_vars().has_token(sim.realise(args.positional[1])))
    sim.stop(StopReason::kUnknownCall, "ContextVar.reset with a token from before");
  PyObject* var = context_var(sim, args.positional[0]);
  if (!sim.context_vars().reset(var, args.positional[1].get())) sim.raise();
  return SymValue::borrow(Py_None);
}

}  // namespace builtins
}  // namespace framejit
