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

}  // namespace framejit
