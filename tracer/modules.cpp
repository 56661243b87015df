// Calls of torch.nn modules.
#include "tracer/callables.h"
#include "tracer/library.h"
#include "tracer/simulator.h"

namespace framejit {

using graph::GuardKind;
using graph::SourceKind;

SymValue Simulator::call_module(PyObject* module, CallArgs args, bool plain) {
  SymValue owner = SymValue::borrow(module);
  static PyObject *const call_name = interned("__call__"), *const impl_name = interned("_call_impl"),
                         *const compiled_name = interned("_compiled_call_impl");
  PyObject* hook = lookup_type(Py_TYPE(module), call_name);
  if (hook != library().module_call) {
    args.positional.insert(args.positional.begin(), owner);
    return call(SymValue::borrow(hook), std::move(args), plain);
  }
  if (services_.runs_eagerly(module)) stop(StopReason::kNotToStatic, qualified_name(module));
  PyObject* call_impl = lookup_type(Py_TYPE(module), impl_name);
  const bool ordinary = call_impl == library().module_call_impl && !is_compiled(module, compiled_name) &&
                        !find_in_instance(module, impl_name);
  if (ordinary && !has_hooks(module)) return call(load_attr(owner, "forward"), std::move(args), plain);
  args.positional.insert(args.positional.begin(), owner);
  return call(SymValue::borrow(ordinary ? call_impl : hook), std::move(args), plain);
}

bool Simulator::is_compiled(PyObject* module, PyObject* name) {
  if (std::optional<SymValue> own = find_in_instance(module, name)) return realise(*own) != Py_None;
  PyObject* of_class = lookup_type(Py_TYPE(module), name);
  return of_class && of_class != Py_None;
}

// `source` invalid: a module of the trace.
bool Simulator::is_filled(PyObject* table, graph::SourceId source) {
  if (!table || !PyDict_Check(table)) return true;
  if (source.valid()) {
    world_.guard(GuardKind::kTypeIs, source, reinterpret_cast<PyObject*>(Py_TYPE(table)));
    world_.guard(GuardKind::kLength, source, nullptr, PyDict_GET_SIZE(table));
  }
  if (PyObject* shown = world_.shown_at(table, source)) table = shown;
  return PyDict_GET_SIZE(table) != 0;
}

bool Simulator::has_hooks(PyObject* module) {
  static PyObject* const names[] = {interned("_backward_hooks"), interned("_backward_pre_hooks"),
                                    interned("_forward_hooks"), interned("_forward_pre_hooks")};
  PyObject** slot = _PyObject_GetDictPtr(module);
  PyObject* dict = slot ? *slot : nullptr;
  if (!dict) return true;
  graph::SourceId source = world_.source_of(module), items;
  if (source.valid()) items = world_.sources().read(SourceKind::kInstanceDict, source);
  for (PyObject* name : names) {
    if (is_written(module, dict, name)) return true;
    graph::SourceId table;
    if (source.valid()) table = world_.sources().keyed(SourceKind::kDictItem, items, world_.pool().add(name));
    if (is_filled(PyDict_GetItemWithError(dict, name), table)) return true;
  }
  return has_global_hooks();
}

// Those of all modules. Each module that is called asks: what was guarded once is only looked at.
bool Simulator::has_global_hooks() {
  static PyObject* const names[] = {interned("_global_backward_pre_hooks"), interned("_global_backward_hooks"),
                                    interned("_global_forward_hooks"), interned("_global_forward_pre_hooks")};
  static_assert(std::size(names) == std::tuple_size_v<decltype(guarded_hooks_)>);
  PyObject* globals = PyModule_GetDict(library().module_file);
  for (size_t i = 0; i < std::size(names); ++i) {
    if (world_.changes_global(globals, names[i])) return true;
    PyObject* table = PyDict_GetItemWithError(globals, names[i]);
    PyObject* shown = table ? world_.representation(table) : nullptr;
    if (!shown) shown = table;
    if (!shown || guarded_hooks_[i] != shown) {
      world_.rely_on_item(globals, names[i], table);
      if (table && is_filled(table, world_.sources().constant(world_.pool().add(table)))) return true;
      guarded_hooks_[i] = shown;
    } else if (PyDict_GET_SIZE(shown) != 0) {
      return true;
    }
  }
  return false;
}

}  // namespace framejit
