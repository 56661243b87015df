// Calls of torch.nn modules.
#include "tracer/callables.h"
#include "tracer/library.h"
#include "tracer/simulator.h"

namespace framejit {

using graph::GuardKind;
using graph::SourceKind;

SymValue Simulator::call_module(PyObject* module, CallArgs args, bool plain) {
  SymValue owner = SymValue::borrow(module);
  PyObject* hook = lookup_type(Py_TYPE(module), interned("__call__"));
  if (hook != library().module_call) {
    args.positional.insert(args.positional.begin(), owner);
    return call(SymValue::borrow(hook), std::move(args), plain);
  }
  if (services_.runs_eagerly(module)) stop(StopReason::kNotToStatic, qualified_name(module));
  static PyObject *const compiled_name = interned("_compiled_call_impl"), *const impl_name = interned("_call_impl");
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

// Those of all modules.
bool Simulator::has_global_hooks() {
  static PyObject* const names[] = {interned("_global_backward_pre_hooks"), interned("_global_backward_hooks"),
                                    interned("_global_forward_hooks"), interned("_global_forward_pre_hooks")};
  PyObject* globals = PyModule_GetDict(library().module_file);
  for (PyObject* name : names) {
    if (world_.changes_global(globals, name)) return true;
    PyObject* table = PyDict_GetItemWithError(globals, name);
    if (global_hooks_guarded_ && table && !world_.representation(table)) continue;
    world_.rely_on_item(globals, name, table);
    if (table && is_filled(table, world_.sources().constant(world_.pool().add(table)))) return true;
  }
  global_hooks_guarded_ = true;
  return false;
}

}  // namespace framejit
