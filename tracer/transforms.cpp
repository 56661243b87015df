// Handlers of what torch.func is made of: functions of torch._C._functorch.
#include "tracer/transforms.h"

#include <algorithm>

#include "tracer/builtins.h"
#include "tracer/simulator.h"

namespace framejit::builtins {
namespace {

bool is_level_tensor(Simulator& sim, PyObject* obj) {
  return sim.is_tensor(obj) && sim.services().host.is_level_tensor(obj);
}

SymValue enter(Simulator& sim, PyObject* callable, CallArgs& args) {
  const BreakPoint before = sim.current_break_point();
  const uint64_t state = sim.services().host.global_state();
  SymValue result = sim.call_real(callable, args);
  sim.transforms().enter(before, state);
  return result;
}

SymValue leave(Simulator& sim, PyObject* callable, CallArgs& args) {
  if (!sim.transforms().active()) sim.stop(StopReason::kUnknownCall, qualified_name(callable));
  const BreakPoint outermost = sim.transforms().outermost();
  SymValue result = sim.call_real(callable, args);
  sim.transforms().leave();
  if (!sim.transforms().active() && sim.services().host.global_state() != sim.transforms().state_before())
    throw StopTrace{{StopReason::kGlobalMutation, "inside of a function transform", sim.location_text()}, outermost};
  return result;
}

}  // namespace

SymValue call_enter_level(Simulator& sim, PyObject* callable, CallArgs args) { return enter(sim, callable, args); }
SymValue call_leave_level(Simulator& sim, PyObject* callable, CallArgs args) { return leave(sim, callable, args); }

// What only makes sense on a level, or on a tensor that came from one.
SymValue call_on_level(Simulator& sim, PyObject* callable, CallArgs args) {
  realise_all(sim, args);
  const bool has_level_tensor = std::any_of(args.positional.begin(), args.positional.end(),
                                            [&](const SymValue& value) { return is_level_tensor(sim, value.get()); });
  if (!sim.transforms().active() && !has_level_tensor) sim.stop(StopReason::kUnknownCall, qualified_name(callable));
  return sim.call_real(callable, args);
}

// torch.func disables hooks of saved tensors around its levels, and puts the message back that was there before: scopes
// that find each other's message are told apart by that, and the outermost alone ends with all hooks enabled.
SymValue call_disable_saved_hooks(Simulator& sim, PyObject* callable, CallArgs args) {
  realise_all(sim, args);
  auto text_of = [](PyObject* obj) {
    return PyUnicode_Check(obj) ? std::string(PyUnicode_AsUTF8(obj)) : std::string();
  };
  Ref asker = imported(sim, "torch._C._autograd", "_saved_tensors_hooks_get_disabled_error_message");
  const Ref before = sim.check(PyObject_CallObject(asker.get(), nullptr));
  std::vector<std::string>& messages = sim.transforms().hook_messages();
  if (args.positional.size() == 1 && !messages.empty() && messages.back() == text_of(args.positional[0].get())) {
    messages.pop_back();
    return leave(sim, callable, args);
  }
  SymValue result = enter(sim, callable, args);
  messages.push_back(text_of(before.get()));
  return result;
}

SymValue call_enable_saved_hooks(Simulator& sim, PyObject* callable, CallArgs args) {
  std::vector<std::string>& messages = sim.transforms().hook_messages();
  if (messages.empty()) sim.stop(StopReason::kUnknownCall, qualified_name(callable));
  messages.pop_back();
  return leave(sim, callable, args);
}

}  // namespace framejit::builtins
