// torch.ops.aten.add(x, y) and torch.ops.aten.add.Tensor(x, y): calls of the dispatcher's operators (torch/_ops.py).
#include <fmt/format.h>

#include <algorithm>

#include "tracer/builtins.h"
#include "tracer/library.h"

namespace framejit::builtins {

namespace {

std::string text_of(Simulator& sim, const SymValue& owner, const char* attribute) {
  SymValue value = sim.load_attr(owner, attribute);
  PyObject* text = sim.realise(value);
  const char* utf8 = PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : nullptr;
  if (!utf8) PyErr_Clear();
  return utf8 ? utf8 : "";
}

// What a call of the object may call: an operator, or one overload or another of a packet. None if it is neither.
std::vector<std::string> operators_of(Simulator& sim, const SymValue& owner, const std::string& name, bool packet) {
  std::vector<std::string> names;
  if (!packet) {
    names.push_back(name);
  } else {
    for (const SymValue& overload : sim.collect(sim.load_attr(owner, "_overload_names"))) {
      const char* text = PyUnicode_Check(overload.get()) ? PyUnicode_AsUTF8(overload.get()) : nullptr;
      if (!text) return {};
      names.push_back(*text ? name + "." + text : name);
    }
  }
  const auto known = [&](const std::string& each) { return sim.services().host.has_operator(each); };
  return std::all_of(names.begin(), names.end(), known) ? names : std::vector<std::string>();
}

bool is_of_libtorch(const std::string& name) { return name.substr(0, 6) == "aten::"; }

SymValue call_in_c(Simulator& sim, CallArgs& args) {
  SymValue function = sim.load_attr(args.positional[0], "_op");
  args.positional.erase(args.positional.begin());
  for (SymValue& value : args.positional) sim.realise(value);
  for (auto& [keyword, value] : args.keywords) sim.realise(value);
  PyObject* callable = sim.realise(function);
  sim.require_plain(args, callable);
  return sim.call_real(callable, args);
}

// A node of autograd's graph whose backward is written in Python.
bool has_python_node(Simulator& sim, PyObject* result) {
  if (PyTuple_Check(result) || PyList_Check(result)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(result); ++i)
      if (has_python_node(sim, PySequence_Fast_GET_ITEM(result, i))) return true;
    return false;
  }
  if (!sim.is_tensor(result)) return false;
  const Ref node = sim.check(PyObject_GetAttrString(result, "grad_fn"));
  return PyObject_IsInstance(node.get(), library().autograd_function_base) == 1;
}

// One whose kernels may be the program's: they run when the graph does, once. What of the program would run at the
// capture is kept out, save the kernel that infers results: wrappers that autograd and autocast were given.
SymValue call_custom(Simulator& sim, CallArgs args, const std::string& name) {
  if (sim.services().host.global_state() != sim.initial_global_state())
    sim.stop(StopReason::kUnknownCall, name + ", a custom operator, under a grad mode or autocast set inside");
  sim.note_custom_operator();
  SymValue result = sim.without_python([&] { return call_in_c(sim, args); });
  if (has_python_node(sim, result.get()))
    sim.stop(StopReason::kUnsupportedTensor, "the gradient of " + name + " is computed in Python");
  return result;
}

SymValue call_operator(Simulator& sim, PyObject* call, CallArgs args, bool packet) {
  const char* attribute = packet ? "_qualified_op_name" : "_name";
  const std::string name = args.positional.empty() ? "" : text_of(sim, args.positional[0], attribute);
  if (is_of_libtorch(name)) return call_in_c(sim, args);
  const std::vector<std::string> names =
      name.empty() ? std::vector<std::string>() : operators_of(sim, args.positional[0], name, packet);
  if (names.empty()) return sim.follow_function(call, std::move(args), /*plain=*/true);
  for (const std::string& each : names)
    if (const std::string why = sim.services().host.why_not_decomposed(each); !why.empty())
      sim.stop(StopReason::kOperatorFailed, fmt::format("{} {}", each, why));
  return call_custom(sim, std::move(args), name);
}

}  // namespace

SymValue call_overload(Simulator& sim, PyObject* call, CallArgs args) {
  return call_operator(sim, call, std::move(args), /*packet=*/false);
}

SymValue call_overload_packet(Simulator& sim, PyObject* call, CallArgs args) {
  return call_operator(sim, call, std::move(args), /*packet=*/true);
}

}  // namespace framejit::builtins
