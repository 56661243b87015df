// What reads and writes of attributes have in common.
#pragma once

#include <Python.h>

#include <optional>

#include "tracer/simulator.h"

namespace framejit {

// What is found in a class is a descriptor, or none, as long as its own class is as it is.
void rely_on_descriptor(Simulator& sim, PyObject* found);
inline bool is_data_descriptor(PyObject* descriptor) { return Py_TYPE(descriptor)->tp_descr_set != nullptr; }

// The instance dictionary, or null if the object has none (yet).
PyObject* instance_dict(PyObject* obj);

[[noreturn]] void no_attribute(Simulator& sim, PyObject* obj, PyObject* name);

// torch.nn.Module.__getattr__: parameters, buffers, submodules. Empty: none of them has it.
std::optional<SymValue> find_in_module(Simulator& sim, PyObject* module, PyObject* name);

// As slot_tp_getattr_hook, for a class whose __getattribute__ is the function `hook`.
SymValue load_by_getattribute(Simulator& sim, PyObject* hook, const SymValue& owner, PyObject* name);

SymValue load_tensor_attr(Simulator& sim, const SymValue& owner, PyObject* name);
// object.__getattribute__ of a tensor: no method of its class is asked.
SymValue load_tensor_attr_without_hooks(Simulator& sim, const SymValue& owner, PyObject* name);

}  // namespace framejit
