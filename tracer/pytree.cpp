// torch.utils._pytree on trees of plain containers, where torch.func calls it: its own code runs for real, on copies
// that hold what the trace has. The structures that it gives are never made again: no capture ends inside of
// torch.func.
#include <algorithm>

#include "tracer/builtins.h"
#include "tracer/library_code.h"
#include "tracer/simulator.h"

namespace framejit::builtins {
namespace {

constexpr int kDeepestTree = 64;

// A value that no program registers as a container.
bool is_plain_leaf(Simulator& sim, PyObject* obj) {
  return obj == Py_None || sim.is_tensor(obj) || is_plain_data(obj) || is_identity_constant(obj);
}

// The same tree of lists, tuples and dictionaries, read item by item. Null: something else is in it.
Ref copy_tree(Simulator& sim, SymValue tree, int depth = 0) {
  PyObject* obj = sim.realise(tree);
  if (depth > kDeepestTree) return {};
  if (PyTuple_CheckExact(obj) || PyList_CheckExact(obj)) {
    Ref items = sim.check(PyList_New(0));
    for (SymValue& item : sim.collect(tree)) {
      Ref copy = copy_tree(sim, item, depth + 1);
      if (!copy) return {};
      sim.check_status(PyList_Append(items.get(), copy.get()));
    }
    return PyTuple_CheckExact(obj) ? sim.check(PyList_AsTuple(items.get())) : items;
  }
  if (PyDict_CheckExact(obj)) {
    Ref items = sim.snapshot_dict(tree), copies = sim.check(PyDict_New());
    PyObject *key, *value;
    for (Py_ssize_t pos = 0; PyDict_Next(items.get(), &pos, &key, &value);) {
      Ref copy = is_plain_data(key) ? copy_tree(sim, SymValue::borrow(value), depth + 1) : Ref();
      if (!copy) return {};
      sim.check_status(PyDict_SetItem(copies.get(), key, copy.get()));
    }
    return copies;
  }
  return is_plain_leaf(sim, obj) ? Ref::borrow(obj) : Ref();
}

// A structure that the trace has made itself: nothing else can change it.
bool is_own_spec(Simulator& sim, SymValue& spec) { return sim.world().find(sim.realise(spec)) == nullptr; }

SymValue run(Simulator& sim, PyObject* function, std::vector<SymValue> positional) {
  sim.world().rely_on_code(function);
  CallArgs args{std::move(positional), {}};
  SymValue result = sim.call_real(function, args);
  if (PyTuple_CheckExact(result.get()) && PyTuple_GET_SIZE(result.get()) == 2)
    if (PyObject* spec = PyTuple_GET_ITEM(result.get(), 1); Py_TYPE(spec)->tp_flags & Py_TPFLAGS_HEAPTYPE)
      if (!sim.is_tensor(spec)) sim.note_made(spec);
  return result;
}

bool takes(const CallArgs& args, size_t count) { return args.positional.size() == count && !args.has_keywords(); }

bool is_called_by_transforms(Simulator& sim) {
  return module_name(sim.frame().globals.get()).substr(0, 16) == "torch._functorch";
}

}  // namespace

SymValue call_tree_flatten(Simulator& sim, PyObject* function, CallArgs args) {
  if (takes(args, 1) && is_called_by_transforms(sim))
    if (Ref tree = copy_tree(sim, args.positional[0])) return run(sim, function, {SymValue(std::move(tree))});
  return sim.follow_function(function, std::move(args), false);
}

SymValue call_tree_unflatten(Simulator& sim, PyObject* function, CallArgs args) {
  if (!takes(args, 2) || !is_called_by_transforms(sim) || !is_own_spec(sim, args.positional[1]))
    return sim.follow_function(function, std::move(args), false);
  Ref leaves = sim.check(PyList_New(0));
  for (SymValue& leaf : sim.collect(sim.get_iter(args.positional[0])))
    sim.check_status(PyList_Append(leaves.get(), sim.realise(leaf)));
  return run(sim, function, {SymValue(std::move(leaves)), args.positional[1]});
}

SymValue call_broadcast_to_spec(Simulator& sim, PyObject* function, CallArgs args) {
  if (takes(args, 2) && is_called_by_transforms(sim) && is_own_spec(sim, args.positional[1]))
    if (Ref tree = copy_tree(sim, args.positional[0]))
      return run(sim, function, {SymValue(std::move(tree)), args.positional[1]});
  return sim.follow_function(function, std::move(args), false);
}

SymValue call_compare_specs(Simulator& sim, PyObject* function, CallArgs args) {
  if (!takes(args, 2) || !is_called_by_transforms(sim) || !is_own_spec(sim, args.positional[0]) ||
      !is_own_spec(sim, args.positional[1]))
    return sim.follow_function(function, std::move(args), false);
  return run(sim, function, std::move(args.positional));
}

// tree_map(function, tree): the function runs in the trace.
SymValue call_tree_map(Simulator& sim, PyObject* function, CallArgs args) {
  Ref tree = takes(args, 2) && is_called_by_transforms(sim) ? copy_tree(sim, args.positional[1]) : Ref();
  if (!tree) return sim.follow_function(function, std::move(args), false);
  Ref pytree = sim.check(PyImport_ImportModule("torch.utils._pytree"));
  Ref flatten = sim.check(PyObject_GetAttrString(pytree.get(), "tree_flatten"));
  Ref unflatten = sim.check(PyObject_GetAttrString(pytree.get(), "tree_unflatten"));
  sim.world().rely_on_code(function);
  SymValue flat = run(sim, flatten.get(), {SymValue(std::move(tree))});
  PyObject* leaves = PyTuple_GET_ITEM(flat.get(), 0);
  Ref mapped = sim.check(PyList_New(0));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(leaves); ++i) {
    SymValue result = sim.call(args.positional[0], {SymValue::borrow(PyList_GET_ITEM(leaves, i))});
    sim.check_status(PyList_Append(mapped.get(), sim.realise(result)));
  }
  return run(sim, unflatten.get(), {SymValue(std::move(mapped)), SymValue::borrow(PyTuple_GET_ITEM(flat.get(), 1))});
}

// functools.wraps, without what torch.compile leaves on a function.
SymValue call_wraps_without_marks(Simulator& sim, PyObject* function, CallArgs args) {
  static const char* const kMarks[] = {"_torchdynamo_inline",     "_torchdynamo_orig_callable",
                                       "_torchdynamo_wrapper_id", "_isolate_recompiles_id",
                                       "get_compiler_config",     "aot_compile",
                                       "_is_torch_compile"};
  if (!takes(args, 1)) return sim.follow_function(function, std::move(args), false);
  const bool marked = std::any_of(std::begin(kMarks), std::end(kMarks), [&](const char* mark) {
    return sim.find_attr(args.positional[0], interned(mark)).has_value();
  });
  if (marked) return sim.follow_function(function, std::move(args), false);
  Ref functools = sim.check(PyImport_ImportModule("functools"));
  PyObject* wraps = sim.keep(sim.check(PyObject_GetAttrString(functools.get(), "wraps")));
  return sim.call(SymValue::borrow(wraps), std::move(args));
}

// What torch._dynamo.compiled_autograd switches off while the engine runs is off.
SymValue call_without_compiled_autograd(Simulator& sim, PyObject* function, CallArgs args) {
  Ref dynamo = sim.check(PyImport_ImportModule("torch._dynamo.compiled_autograd"));
  Ref enabled = sim.check(PyObject_GetAttrString(dynamo.get(), "compiled_autograd_enabled"));
  if (!takes(args, 0) || enabled.get() != Py_False || !sim.transforms().first().valid())
    return sim.follow_function(function, std::move(args), false);
  Ref contextlib = sim.check(PyImport_ImportModule("contextlib"));
  PyObject* null = sim.keep(sim.check(PyObject_GetAttrString(contextlib.get(), "nullcontext")));
  return sim.call(SymValue::borrow(null), CallArgs{});
}

}  // namespace framejit::builtins
