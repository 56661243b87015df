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
  static PyObject* compiled_name = interned("_compiled_call_impl");
  SymValue compiled = find_attr(owner, compiled_name).value_or(SymValue::borrow(Py_None));
  PyObject* call_impl = lookup_type(Py_TYPE(module), interned("_call_impl"));
  const bool ordinary = realise(compiled) == Py_None && call_impl == library().module_call_impl;
  if (ordinary && !has_hooks(module)) return call(load_attr(owner, "forward"), std::move(args), plain);
  args.positional.insert(args.positional.begin(), owner);
  return call(SymValue::borrow(ordinary ? call_impl : hook), std::move(args), plain);
}

bool Simulator::has_hooks(PyObject* module) {
  static PyObject* const of_module[] = {interned("_backward_hooks"), interned("_backward_pre_hooks"),
                                        interned("_forward_hooks"), interned("_forward_pre_hooks")};
  static PyObject* const of_all[] = {interned("_global_backward_pre_hooks"), interned("_global_backward_hooks"),
                                     interned("_global_forward_hooks"), interned("_global_forward_pre_hooks")};
  auto filled = [&](PyObject* dict, graph::SourceId source) {
    if (!dict || !PyDict_Check(dict)) return true;
    if (source.valid()) {
      world_.guard(GuardKind::kTypeIs, source, reinterpret_cast<PyObject*>(Py_TYPE(dict)));
      world_.guard(GuardKind::kLength, source, nullptr, PyDict_GET_SIZE(dict));
    }
    return PyDict_GET_SIZE(dict) != 0;
  };
  PyObject** slot = _PyObject_GetDictPtr(module);
  PyObject* dict = slot ? *slot : nullptr;
  if (!dict) return true;
  graph::SourceId source = world_.source_of(module);
  for (PyObject* key : of_module) {
    if (is_written(module, dict, key)) return true;
    graph::SourceId table;
    if (source.valid())
      table = world_.sources().keyed(SourceKind::kDictItem, world_.sources().read(SourceKind::kInstanceDict, source),
                                     world_.pool().add(key));
    if (filled(PyDict_GetItemWithError(dict, key), table)) return true;
  }
  PyObject* globals = PyModule_GetDict(library().module_file);
  for (PyObject* key : of_all) {
    PyObject* table = PyDict_GetItemWithError(globals, key);
    world_.rely_on_item(globals, key, table);
    if (table && filled(table, world_.sources().constant(world_.pool().add(table)))) return true;
  }
  return false;
}

}  // namespace framejit
