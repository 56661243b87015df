// StaticFunction and what its reports are made of.
#include "base/py_ref.h"
#include "python/bindings/bindings.h"
#include "runtime/call/static_function.h"
#include "runtime/report/records.h"

namespace framejit {
namespace {

using runtime::static_function_cache;

PyObject* captures(PyObject*, PyObject* fn) {
  auto cache = static_function_cache(fn);
  return cache ? runtime::capture_records(*cache).release() : PyList_New(0);
}

PyObject* listing(PyObject*, PyObject* fn) {
  auto cache = static_function_cache(fn);
  return runtime::code_listing(cache.get(), runtime::static_function_target(fn)).release();
}

PyMethodDef kFunctions[] = {
    {"captures", captures, METH_O,
     "captures(fn)\n--\n\nWhat a StaticFunction has captured: one dict per entry, in the order of the code."},
    {"listing", listing, METH_O, "listing(fn)\n--\n\nThe regenerated code of a StaticFunction as text."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

int add_static_function_bindings(PyObject* module) {
  PyTypeObject* type = runtime::static_function_type();
  if (!type) return -1;
  Py_INCREF(type);
  if (PyModule_AddObject(module, "StaticFunction", reinterpret_cast<PyObject*>(type)) < 0) return -1;
  return PyModule_AddFunctions(module, kFunctions);
}

}  // namespace framejit
