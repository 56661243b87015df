#include "tracer/library_code.h"

#include <algorithm>

#include "tracer/frame_builtins.h"
#include "tracer/library.h"

namespace framejit {
namespace {

using graph::GuardKind;
using graph::SourceKind;

bool is_of_module(PyObject* globals, std::initializer_list<std::string_view> names) {
  const std::string_view name = module_name(globals);
  return std::any_of(names.begin(), names.end(), [name](std::string_view each) { return name == each; });
}

bool is_direct_namespace(PyObject* globals) {
  return is_of_module(
      globals, {"torch.nn.functional", "torch.functional", "torch._tensor", "torch._jit_internal", "torch.overrides"});
}

class DirectReads {
 public:
  explicit DirectReads(World& world) : world_(world) {}

  void add(PyObject* function) {
    if (!world_.rely_on_code(function)) return;
    graph::SourceTable& sources = world_.sources();
    const graph::SourceId source = world_.source_of(function);
    PyObject* defaults = PyFunction_GET_DEFAULTS(function);
    world_.guard(GuardKind::kIdIs, sources.read(SourceKind::kFunctionDefaults, source), defaults ? defaults : Py_None);
    if (PyObject* closure = PyFunction_GET_CLOSURE(function))
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(closure); ++i)
        if (PyObject* value = PyCell_GET(PyTuple_GET_ITEM(closure, i))) follow(value);
    read_code(PyFunction_GET_CODE(function), PyFunction_GET_GLOBALS(function));
  }

 private:
  void follow(PyObject* value) {
    // Of what torch.overrides has, these functions call the tests alone, which are C code.
    if (PyFunction_Check(value) && is_direct_namespace(PyFunction_GET_GLOBALS(value)) &&
        !is_of_module(PyFunction_GET_GLOBALS(value), {"torch.overrides"}))
      add(value);
  }

  void read_code(PyObject* code, PyObject* globals) {
    const Ref names = part(code, "co_names"), constants = part(code, "co_consts");
    std::vector<PyObject*> modules;  // also those that a module has by these names, as in `torch._C._nn.gelu`
    for_each(names.get(), [&](PyObject* name) {
      read_global(globals, name, modules);
      read_tensor(name);
    });
    for (size_t at = 0; at < modules.size(); ++at)
      for_each(names.get(), [&](PyObject* name) { read_attribute(modules[at], name, modules); });
    for_each(constants.get(), [&](PyObject* constant) {
      if (PyCode_Check(constant)) read_code(constant, globals);
    });
  }

  void read_global(PyObject* globals, PyObject* name, std::vector<PyObject*>& modules) {
    PyObject* builtins = own_builtins();
    if (PyObject* value = PyDict_GetItem(globals, name)) {
      rely_on(globals, name, value, modules);
    } else if (PyObject* builtin = PyDict_GetItem(builtins, name)) {
      world_.rely_on_item(globals, name, nullptr);
      world_.rely_on_item(builtins, name, builtin);
    }
  }

  void read_attribute(PyObject* module, PyObject* name, std::vector<PyObject*>& modules) {
    PyObject* dict = PyModule_GetDict(module);
    if (PyObject* found = PyDict_GetItem(dict, name))
      rely_on(dict, name, found, modules);
    else if (!PyModule_CheckExact(module))  // its class may have a __getattr__, as that of torch._VF
      world_.rely_on_item(dict, name, nullptr);
  }

  void read_tensor(PyObject* name) {
    auto* tensor = reinterpret_cast<PyTypeObject*>(library().tensor_type);
    if (PyObject* found = _PyType_Lookup(tensor, name)) world_.rely_on_type_attr(tensor, name, found);
  }

  void rely_on(PyObject* dict, PyObject* name, PyObject* value, std::vector<PyObject*>& modules) {
    world_.rely_on_item(dict, name, value);
    follow(value);
    if (PyModule_Check(value) && std::find(modules.begin(), modules.end(), value) == modules.end())
      modules.push_back(value);
  }

  static Ref part(PyObject* code, const char* name) {
    Ref tuple = Ref::steal(PyObject_GetAttrString(code, name));
    if (!tuple) throw PythonRaised{};
    return tuple;
  }

  template <typename Visit>
  static void for_each(PyObject* tuple, Visit visit) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) visit(PyTuple_GET_ITEM(tuple, i));
  }

  World& world_;
};

}  // namespace

std::string_view module_name(PyObject* globals) {
  static PyObject* const key = interned("__name__");
  PyObject* name = PyDict_GetItem(globals, key);
  const char* text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  if (!text) PyErr_Clear();
  return text ? text : "";
}

bool is_library_namespace(PyObject* globals) {
  static constexpr std::string_view kModules[] = {"builtins",        "math",    "operator", "functools",  "itertools",
                                                  "collections",     "typing",  "types",    "contextlib", "enum",
                                                  "dataclasses",     "abc",     "copy",     "inspect",    "_operator",
                                                  "collections.abc", "numbers", "re"};
  const std::string_view name = module_name(globals);
  if (name == "torch" || name.substr(0, 6) == "torch.") return true;
  return std::any_of(std::begin(kModules), std::end(kModules), [name](std::string_view each) { return name == each; });
}

bool is_code_of_enums(PyObject* function) {
  if (function && (Py_TYPE(function) == &PyStaticMethod_Type || Py_TYPE(function) == &PyClassMethod_Type)) {
    Ref held = Ref::steal(PyObject_GetAttrString(function, "__func__"));
    return is_code_of_enums(held.get());
  }
  if (!function || !PyFunction_Check(function)) return false;
  const std::string_view name = module_name(PyFunction_GET_GLOBALS(function));
  return name == "enum" || name == "types";
}

bool hashes_in_python(PyObject* constant) {
  if (!(Py_TYPE(constant)->tp_flags & Py_TPFLAGS_HEAPTYPE)) return false;
  for (const char* name : {"__hash__", "__eq__"}) {
    PyObject* found = _PyType_Lookup(Py_TYPE(constant), interned(name));
    if (found && PyFunction_Check(found) && !is_library_namespace(PyFunction_GET_GLOBALS(found))) return true;
  }
  return false;
}

bool is_constant_key(PyObject* obj) {
  return is_plain_data(obj) || (is_identity_constant(obj) && !hashes_in_python(obj));
}

bool is_direct_function(Simulator& sim, PyObject* function, const CallArgs& args) {
  if (!is_direct_namespace(PyFunction_GET_GLOBALS(function))) return false;
  if (sim.world().changes_library()) return false;
  if (sim.device_contexts().active()) return false;         // what it calls is to be seen
  if (function == library().tensor_backward) return false;  // that it starts the engine, too
  if (function == library().tensor_hash) return false;      // a fake stands elsewhere in memory than the tensor
  auto plain = [&](const SymValue& value) {
    PyObject* obj = value.get();
    if (sim.world().holds_number(obj)) return false;
    return sim.is_tensor(obj) || is_plain_data(obj) || PyList_CheckExact(obj) || PyTuple_CheckExact(obj) ||
           PyType_Check(obj);
  };
  for (const SymValue& value : args.positional)
    if (!plain(value)) return false;
  for (const auto& [key, value] : args.keywords)
    if (!plain(value)) return false;
  return true;
}

void rely_on_direct_function(World& world, PyObject* function) { DirectReads(world).add(function); }

}  // namespace framejit
