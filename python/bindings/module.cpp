// The extension `framejit._C`.
#include "python/bindings/bindings.h"
#include "python/bindings/torch_testing.h"

namespace {

PyModuleDef c_module = {
    PyModuleDef_HEAD_INIT, "framejit._C", "The C++ side of framejit.", -1, nullptr, nullptr, nullptr, nullptr, nullptr,
};

}  // namespace

// PyMODINIT_FUNC, which before 3.9 does not undo -fvisibility=hidden.
extern "C" [[gnu::visibility("default")]] PyObject* PyInit__C() {
  PyObject* module = PyModule_Create(&c_module);
  if (!module) return nullptr;
  PyObject* testing = nullptr;
  if (framejit::add_static_function_bindings(module) == 0 && framejit::add_engine_bindings(module) == 0 &&
      framejit::add_graph_bindings(module) == 0 && framejit::add_kernel_bindings(module) == 0 &&
      (testing = framejit::make_torch_testing_module()) != nullptr &&
      PyModule_AddObject(module, "_testing", testing) == 0)
    return module;
  Py_DECREF(module);
  return nullptr;
}
