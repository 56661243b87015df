// Objects of torch and the standard library that the simulator knows by identity. Null where they do not exist.
#pragma once

#include <Python.h>

#include <span>

namespace framejit {

struct Library {
  PyObject* module_type = nullptr;              // torch.nn.Module
  PyObject* module_getattr = nullptr;           // torch.nn.Module.__getattr__
  PyObject* module_setattr = nullptr;           // torch.nn.Module.__setattr__
  PyObject* module_call = nullptr;              // torch.nn.Module.__call__
  PyObject* module_call_impl = nullptr;         // torch.nn.Module._call_impl
  PyObject* module_file = nullptr;              // torch.nn.modules.module, where the global hooks live
  PyObject* tensor_type = nullptr;              // torch.Tensor
  PyObject* tensor_base = nullptr;              // torch._C.TensorBase
  PyObject* parameter_type = nullptr;           // torch.nn.Parameter
  PyObject* autograd_function = nullptr;        // torch.autograd.Function
  PyObject* autograd_function_base = nullptr;   // torch._C._FunctionBase, the type of what a context is
  PyObject* autograd_function_setup = nullptr;  // torch.autograd.Function.setup_context, where nothing overrides it
  PyObject* tensor_backward = nullptr;          // torch.Tensor.backward
  PyObject* tensor_hash = nullptr;              // torch.Tensor.__hash__
  PyObject* once_differentiable = nullptr;      // torch.autograd.function.once_differentiable
  PyObject* disable_dynamo = nullptr;           // torch._compile._disable_dynamo
  PyObject* profiler_enabled = nullptr;         // torch._C._autograd._profiler_enabled
  PyObject* set_grad_enabled = nullptr;         // torch._C._set_grad_enabled
  PyObject* partial_type = nullptr;             // functools.partial
  PyObject* enum_type = nullptr;                // enum.Enum
  PyObject* enum_meta = nullptr;
  PyObject* lru_cache_type = nullptr;       // functools._lru_cache_wrapper
  PyObject* device_enter = nullptr;         // torch.device.__enter__
  PyObject* device_exit = nullptr;          // torch.device.__exit__
  PyObject* object_getattribute = nullptr;  // object.__getattribute__
  PyObject* object_setattr = nullptr;       // object.__setattr__
};

// Filled by initialise_callables(); valid as long as the process.
const Library& library();
bool is_module(PyObject* obj);
// Whether this function is what `maker`, a function of torch, makes around another one, under that name.
bool is_made_by(PyObject* function, PyObject* maker, const char* name);
// The names of a module's dictionaries of parameters, buffers and submodules, interned.
std::span<PyObject* const> module_tables();

}  // namespace framejit
