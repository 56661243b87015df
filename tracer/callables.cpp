#include "tracer/callables.h"

#include <cstring>
#include <unordered_map>

#include "tracer/builtins.h"
#include "tracer/library.h"
#include "tracer/library_code.h"
#include "tracer/type_slots.h"

namespace framejit {
namespace {

const CallableRow kRows[] = {
#define CALLABLE(path, kind) {path, CallableKind::kind, StopReason::kUnknownCall, nullptr},
#define BREAK(path, reason) {path, CallableKind::kBreak, StopReason::k##reason, nullptr},
#define HANDLER(path, function) {path, CallableKind::kHandler, StopReason::kUnknownCall, &builtins::function},
#include "tracer/callables.def"
#undef CALLABLE
#undef BREAK
#undef HANDLER
};

std::unordered_map<PyObject*, const CallableRow*>& table() {
  static auto* rows = new std::unordered_map<PyObject*, const CallableRow*>;
  return *rows;
}

Library& mutable_library() {
  static Library lib;
  return lib;
}

// Resolves "package.module.Type.method" from what is imported; methods give their descriptor, class methods and static
// methods in Python their function. New reference or null.
Ref resolve(const char* path) {
  PyObject* modules = PyImport_GetModuleDict();
  std::string text = path, module_name;
  Ref current;
  size_t used = 0;
  for (size_t end = text.find('.'); end != std::string::npos; end = text.find('.', end + 1)) {
    PyObject* module = PyDict_GetItemString(modules, text.substr(0, end).c_str());
    if (!module) break;
    current = Ref::borrow(module);
    used = end;
  }
  if (!current) return {};
  for (size_t start = used + 1; start <= text.size();) {
    size_t end = std::min(text.find('.', start), text.size());
    std::string name = text.substr(start, end - start);
    bool last = end == text.size();
    Ref next;
    if (last && PyType_Check(current.get()))
      next = Ref::borrow(_PyType_Lookup(reinterpret_cast<PyTypeObject*>(current.get()), interned(name.c_str())));
    else if (PyModule_Check(current.get()))  // never its __getattr__, which may import: torch._dynamo takes seconds
      next = Ref::borrow(PyDict_GetItemString(PyModule_GetDict(current.get()), name.c_str()));
    else
      next = Ref::steal(PyObject_GetAttrString(current.get(), name.c_str()));
    if (!next) {
      PyErr_Clear();
      return {};
    }
    current = std::move(next);
    start = end + 1;
  }
  if (PyInstanceMethod_Check(current.get())) return Ref::borrow(PyInstanceMethod_GET_FUNCTION(current.get()));
  const bool wrapped = Py_TYPE(current.get()) == &PyClassMethod_Type || Py_TYPE(current.get()) == &PyStaticMethod_Type;
  return wrapped ? Ref::steal(PyObject_GetAttrString(current.get(), "__func__")) : current;
}

PyObject* resolve_forever(const char* path) { return resolve(path).release(); }

void fill_library() {
  Library& lib = mutable_library();
  lib.module_type = resolve_forever("torch.nn.Module");
  lib.module_getattr = resolve_forever("torch.nn.Module.__getattr__");
  lib.module_setattr = resolve_forever("torch.nn.Module.__setattr__");
  lib.module_call = resolve_forever("torch.nn.Module.__call__");
  lib.module_call_impl = resolve_forever("torch.nn.Module._call_impl");
  lib.module_file = PyDict_GetItemString(PyImport_GetModuleDict(), "torch.nn.modules.module");
  Py_XINCREF(lib.module_file);
  lib.tensor_type = resolve_forever("torch.Tensor");
  lib.tensor_base = resolve_forever("torch._C.TensorBase");
  lib.parameter_type = resolve_forever("torch.nn.Parameter");
  lib.autograd_function = resolve_forever("torch.autograd.Function");
  lib.tensor_backward = resolve_forever("torch.Tensor.backward");
  lib.tensor_hash = resolve_forever("torch.Tensor.__hash__");
  lib.once_differentiable = resolve_forever("torch.autograd.function.once_differentiable");
  lib.disable_dynamo = resolve_forever("torch._compile._disable_dynamo");
  lib.profiler_enabled = resolve_forever("torch._C._autograd._profiler_enabled");
  lib.autograd_function_base = resolve_forever("torch._C._FunctionBase");
  if (lib.autograd_function)
    lib.autograd_function_setup = PyObject_GetAttrString(lib.autograd_function, "setup_context");
  lib.set_grad_enabled = resolve_forever("torch._C._set_grad_enabled");
  lib.partial_type = resolve_forever("functools.partial");
  lib.enum_type = resolve_forever("enum.Enum");
  lib.enum_meta = resolve_forever("enum.EnumMeta");
  lib.lru_cache_type = resolve_forever("functools._lru_cache_wrapper");
  lib.device_enter = resolve_forever("torch.device.__enter__");
  lib.device_exit = resolve_forever("torch.device.__exit__");
  lib.object_getattribute = resolve_forever("builtins.object.__getattribute__");
  lib.object_setattr = resolve_forever("builtins.object.__setattr__");
}

void fill_plain_types() {
  static const char* const kByValue[] = {"torch.Size", "torch.device"};
  static const char* const kByIdentity[] = {"torch.dtype", "torch.layout", "torch.memory_format", "torch.qscheme"};
  for (const char* path : kByValue)
    if (PyObject* type = resolve_forever(path)) add_plain_type(reinterpret_cast<PyTypeObject*>(type), false);
  for (const char* path : kByIdentity)
    if (PyObject* type = resolve_forever(path)) add_plain_type(reinterpret_cast<PyTypeObject*>(type), true);
}

}  // namespace

const Library& library() { return mutable_library(); }

std::span<PyObject* const> module_tables() {
  static PyObject* const tables[] = {PyUnicode_InternFromString("_parameters"), PyUnicode_InternFromString("_buffers"),
                                     PyUnicode_InternFromString("_modules")};
  return tables;
}

bool is_module(PyObject* obj) {
  PyObject* type = library().module_type;
  return type && PyObject_TypeCheck(obj, reinterpret_cast<PyTypeObject*>(type));
}

bool is_made_by(PyObject* function, PyObject* maker, const char* name) {
  if (!maker || !PyFunction_Check(maker)) return false;
  auto code_of = [](PyObject* f) { return reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(f)); };
  return code_of(function)->co_filename == code_of(maker)->co_filename &&
         PyUnicode_CompareWithASCIIString(code_of(function)->co_name, name) == 0;
}

void initialise_callables() {
  static Py_ssize_t modules_seen = -1;
  static std::vector<const CallableRow*> missing;
  Py_ssize_t modules = PyDict_GET_SIZE(PyImport_GetModuleDict());
  if (modules == modules_seen) return;
  // Other threads may come by while this runs Python code: shared state is only changed where it cannot.
  std::vector<const CallableRow*> wanted = missing;
  if (modules_seen < 0) {
    for (const char* name : {"functools", "enum", "itertools", "operator", "collections", "copy", "inspect"})
      Ref::steal(PyImport_ImportModule(name));
    learn_python_slots();
    fill_library();
    fill_plain_types();
    for (const CallableRow& row : kRows) wanted.push_back(&row);
    modules = PyDict_GET_SIZE(PyImport_GetModuleDict());
  }
  std::erase_if(wanted, [](const CallableRow* row) {
    PyObject* obj = resolve_forever(row->path);
    const bool replaced = obj && PyFunction_Check(obj) && !is_library_namespace(PyFunction_GET_GLOBALS(obj));
    if (obj && !replaced) table().try_emplace(obj, row);
    return obj != nullptr;
  });
  missing = std::move(wanted);
  modules_seen = modules;
  PyErr_Clear();
}

const CallableRow* find_callable(PyObject* key) {
  auto it = table().find(key);
  return it == table().end() ? nullptr : it->second;
}

std::string qualified_name(PyObject* callable) {
  std::string text;
  for (const char* part : {"__module__", "__qualname__"}) {
    Ref value = Ref::steal(PyObject_GetAttrString(callable, part));
    if (!value) PyErr_Clear();
    if (!value || !PyUnicode_Check(value.get())) continue;
    if (!text.empty()) text += '.';
    text += PyUnicode_AsUTF8(value.get());
  }
  return text.empty() ? std::string("an object of type ") + Py_TYPE(callable)->tp_name : text;
}

}  // namespace framejit
