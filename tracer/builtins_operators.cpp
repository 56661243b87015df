// torch.ops.aten.add(x, y) and torch.ops.aten.add.Tensor(x, y): calls of the dispatcher's operators (torch/_ops.py).
#include "tracer/builtins.h"

namespace framejit::builtins {

namespace {

// Of others nothing is known: their kernels may be written in Python, and have effects.
bool is_of_libtorch(Simulator& sim, const SymValue& operator_, const char* name) {
  SymValue full_name = sim.load_attr(operator_, name);
  PyObject* text = sim.realise(full_name);
  const char* utf8 = PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : nullptr;
  return utf8 && std::string_view(utf8).substr(0, 6) == "aten::";
}

SymValue call_operator(Simulator& sim, PyObject* call, CallArgs args, const char* name) {
  if (args.positional.empty() || !is_of_libtorch(sim, args.positional[0], name))
    return sim.follow_function(call, std::move(args), /*plain=*/true);
  SymValue function = sim.load_attr(args.positional[0], "_op");
  args.positional.erase(args.positional.begin());
  for (SymValue& value : args.positional) sim.realise(value);
  for (auto& [keyword, value] : args.keywords) sim.realise(value);
  PyObject* callable = sim.realise(function);
  sim.require_plain(args, callable);
  return sim.call_real(callable, args);
}

}  // namespace

SymValue call_overload(Simulator& sim, PyObject* call, CallArgs args) {
  return call_operator(sim, call, std::move(args), "_name");
}

SymValue call_overload_packet(Simulator& sim, PyObject* call, CallArgs args) {
  return call_operator(sim, call, std::move(args), "_qualified_op_name");
}

}  // namespace framejit::builtins
