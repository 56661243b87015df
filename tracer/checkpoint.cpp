// torch.utils.checkpoint: where gradients are recorded, what the function does is marked, and the backward computes it
// again. The interpreter would call the function again for that, so it may do nothing but operators on tensors.
#include "tracer/builtins.h"

namespace framejit::builtins {

namespace {

struct Checkpoint {
  CallArgs args;  // of the function
  bool same_random = true;
};

// Stops where the program asks for another way of checkpointing than the usual one without reentrant autograd.
Checkpoint options_of(Simulator& sim, PyObject* callable, const CallArgs& given) {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "torch.utils.checkpoint");
  if (!module || given.positional.empty()) sim.stop(StopReason::kUnknownCall, qualified_name(callable));
  PyObject* names = PyModule_GetDict(module);
  bool known = false;
  Checkpoint checkpoint;
  for (const auto& [name, argument] : given.keywords) {
    SymValue value = argument;
    PyObject* option = sim.realise(value);
    auto is = [&, keyword = name.get()](const char* text) { return !PyUnicode_CompareWithASCIIString(keyword, text); };
    if (is("use_reentrant")) {
      known = option == Py_False;
    } else if (is("preserve_rng_state")) {
      checkpoint.same_random = option == Py_True;
    } else if (is("context_fn")) {
      if (option != rely_on_item(sim, names, "noop_context_fn")) sim.stop(StopReason::kRecomputation);
    } else if (is("debug") || is("determinism_check") || is("respect_saved_tensors_hooks")) {
      sim.stop(StopReason::kRecomputation);
    } else if (!is("early_stop")) {
      checkpoint.args.keywords.emplace_back(name, argument);
    }
  }
  PyObject* debug = rely_on_item(sim, names, "_checkpoint_debug_enabled");
  if (!known || (debug && debug != Py_None)) sim.stop(StopReason::kRecomputation);
  checkpoint.args.positional.assign(given.positional.begin() + 1, given.positional.end());
  return checkpoint;
}

// The mark of the nodes that are recorded while this lives.
class Recomputed {
 public:
  explicit Recomputed(TensorHost& host) : host_(host), first_(host.begin_recomputed()) {}
  ~Recomputed() {
    std::string ignored;
    if (!ended_) host_.end_recomputed(first_, true, &ignored);
  }
  Recomputed(const Recomputed&) = delete;
  Recomputed& operator=(const Recomputed&) = delete;

  bool end(bool same_random, std::string* why_not) {
    ended_ = true;
    return host_.end_recomputed(first_, same_random, why_not);
  }

 private:
  TensorHost& host_;
  size_t first_;
  bool ended_ = false;
};

[[noreturn]] void refuse(Simulator& sim, const std::string& why) { sim.stop(StopReason::kRecomputation, why); }

// What was thrown where the function runs, as a stop of the call.
[[noreturn]] void refuse(StopTrace stopped) {
  if (stopped.stop.reason != StopReason::kRecomputation) {
    if (stopped.stop.detail.empty()) stopped.stop.detail = stop_reason_info(stopped.stop.reason).text;
    stopped.stop.reason = StopReason::kRecomputation;
  }
  throw stopped;
}

}  // namespace

SymValue call_checkpoint(Simulator& sim, PyObject* callable, CallArgs args) {
  Checkpoint checkpoint = options_of(sim, callable, args);
  SymValue function = args.positional[0];
  if (!is_grad_enabled(sim)) return sim.call(function, std::move(checkpoint.args));
  if (sim.is_in_checkpoint()) {
    if (!checkpoint.same_random) refuse(sim, "preserve_rng_state=False in another checkpointed function");
    return sim.call(function, std::move(checkpoint.args));
  }
  if (sim.is_in_body()) refuse(sim, "it is called in the body of another operator");
  if (sim.transforms().active() || sim.inference_modes().active())
    refuse(sim, "a function transform or inference mode is active");
  std::string why_not;
  SymValue result;
  try {
    Recomputed nodes(sim.services().host);
    result = sim.in_checkpoint([&] { return sim.call(function, std::move(checkpoint.args)); });
    if (nodes.end(checkpoint.same_random, &why_not)) return result;
  } catch (StopTrace& stopped) {
    refuse(std::move(stopped));
  }
  refuse(sim, why_not);
}

}  // namespace framejit::builtins
