// Captures without a tensor library, as functions of framejit_bytecode._core. Raw C-API.
#include "python/framejit_bytecode/capture_bindings.h"

#include "runtime/engine.h"
#include "runtime/everything.h"
#include "runtime/report/records.h"

namespace framejit {
namespace {

PyObject* capture_everything(PyObject*, PyObject*) {
  if (!runtime::capture_everything()) return nullptr;
  Py_RETURN_NONE;
}

PyObject* capture_stats(PyObject*, PyObject*) { return runtime::stats_record(runtime::engine().stats).release(); }

PyMethodDef methods[] = {
    {"capture_everything", capture_everything, METH_NOARGS,
     "capture_everything()\n--\n\nSends every Python frame of the process through the simulator and "
     "regenerated code, for good."},
    {"capture_stats", capture_stats, METH_NOARGS, "capture_stats()\n--\n\nTotals of the process, as a dict."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

int add_capture_bindings(PyObject* module) { return PyModule_AddFunctions(module, methods); }

}  // namespace framejit
