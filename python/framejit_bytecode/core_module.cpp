// The extension `framejit_bytecode._core`: all that needs no torch.
#include <Python.h>

#include "python/framejit_bytecode/bytecode_bindings.h"
#include "python/framejit_bytecode/capture_bindings.h"
#include "python/framejit_bytecode/eval_frame_bindings.h"
#include "python/framejit_bytecode/twin_bindings.h"

namespace {

PyModuleDef core_module = {
    PyModuleDef_HEAD_INIT,
    "framejit_bytecode._core",
    "The parts of framejit that need no torch.",
    -1,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
};

}  // namespace

PyMODINIT_FUNC PyInit__core() {
  PyObject* module = PyModule_Create(&core_module);
  if (!module) return nullptr;
  if (framejit::add_bytecode_bindings(module) < 0 || framejit::add_eval_frame_bindings(module) < 0 ||
      framejit::add_twin_bindings(module) < 0 || framejit::add_capture_bindings(module) < 0) {
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
