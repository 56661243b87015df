// Twins for tests and for looking at them, as functions of framejit_bytecode._core. Raw C-API.
#include "python/framejit_bytecode/twin_bindings.h"

#include "base/check.h"
#include "base/py_ref.h"
#include "bytecode/decoded_code.h"
#include "codegen/twin.h"
#include "python/framejit_bytecode/frame_call.h"

namespace framejit {
namespace {

using bytecode::InstrIndex;
using codegen::ExitTarget;
using codegen::TwinLayout;

// Runs `body`, turning what C++ throws into a Python exception.
template <class Body>
PyObject* guarded(Body body) {
  try {
    return body();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

PyObject* code_arg(PyObject* object) {
  if (PyCode_Check(object)) return object;
  PyErr_SetString(PyExc_TypeError, "expected a code object");
  return nullptr;
}

Ref int_list(const std::vector<int32_t>& values) {
  Ref list = Ref::steal(PyList_New(static_cast<Py_ssize_t>(values.size())));
  for (size_t i = 0; list && i < values.size(); ++i) PyList_SET_ITEM(list.get(), i, PyLong_FromLong(values[i]));
  return list;
}

Ref describe(const bytecode::DecodedCode& code, const TwinLayout& layout, InstrIndex i) {
  const bytecode::Instruction& instr = code.at(i);
  const bool reachable = code.reachable(i);
  const ExitTarget pending{i, true};
  const char* why_not_pending = reachable ? layout.why_not_exit(pending) : "no path leads there";
  Ref nulls = int_list(reachable ? layout.null_slots(i) : std::vector<int32_t>());
  Ref handled = int_list(layout.handled_slots(i));
  const int pending_depth = why_not_pending == nullptr ? layout.exit_depth(pending) : -1;
  const auto blocks = static_cast<int>(reachable ? code.blocks(i).size() : 0);
  return Ref::steal(Py_BuildValue("{s:s,s:i,s:I,s:i,s:i,s:z,s:z,s:i,s:O,s:O,s:i,s:O,s:i}", "op",
                                  bytecode::sim_op_name(instr.op), "arg", instr.arg, "offset", instr.offset, "line",
                                  instr.position.line, "depth", code.stack_depth(i), "why_not_site",
                                  layout.why_not_site(i), "why_not_pending", why_not_pending, "pending_depth",
                                  pending_depth, "nulls", nulls.get(), "handled", handled.get(), "extra", instr.extra,
                                  "varies", code.state(i).varies ? Py_True : Py_False, "blocks", blocks));
}

PyObject* twin_layout(PyObject*, PyObject* arg) {
  return guarded([&]() -> PyObject* {
    if (code_arg(arg) == nullptr) return nullptr;
    auto code = bytecode::decode(arg);
    const TwinLayout layout(*code);
    Ref list = Ref::steal(PyList_New(0));
    for (size_t i = 0; i < code->size(); ++i) {
      Ref row = describe(*code, layout, InstrIndex(i));
      if (!row || PyList_Append(list.get(), row.get()) != 0) return nullptr;
    }
    return Py_BuildValue("{s:z,s:i,s:O}", "why_not_twin", layout.why_not_twin(), "body_start",
                         static_cast<int>(layout.body_start().index()), "instructions", list.get());
  });
}

PyObject* twin_kept_depth(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* code;
    int site, exit, pending;
    if (!PyArg_ParseTuple(args, "O!iii", &PyCode_Type, &code, &site, &exit, &pending)) return nullptr;
    auto decoded = bytecode::decode(code);
    return PyLong_FromLong(
        TwinLayout(*decoded).kept_depth(InstrIndex(site), {InstrIndex(exit), static_cast<bool>(pending)}));
  });
}

PyObject* twin_sites_after(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* code;
    int exit, pending;
    if (!PyArg_ParseTuple(args, "O!ii", &PyCode_Type, &code, &exit, &pending)) return nullptr;
    auto decoded = bytecode::decode(code);
    const TwinLayout layout(*decoded);
    std::vector<int32_t> sites;
    for (InstrIndex site : layout.sites_after({InstrIndex(exit), static_cast<bool>(pending)}))
      sites.push_back(static_cast<int32_t>(site.value));
    return int_list(sites).release();
  });
}

bool read_sites(PyObject* list, std::vector<codegen::SegmentSite>& sites) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    int at;
    PyObject* segment;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "iO", &at, &segment)) return false;
    sites.push_back({InstrIndex(at), segment});
  }
  return true;
}

bool read_exits(PyObject* list, std::vector<ExitTarget>& exits) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    int at, pending;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "ii", &at, &pending)) return false;
    exits.push_back({InstrIndex(at), static_cast<bool>(pending)});
  }
  return true;
}

PyObject* twin_build(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *code, *sites, *exits, *take, *run_pending, *resume_slot;
    int resume_at = -1;
    codegen::TwinSpec spec;
    if (!PyArg_ParseTuple(args, "O!O!O!OOO|i", &PyCode_Type, &code, &PyList_Type, &sites, &PyList_Type, &exits, &take,
                          &run_pending, &resume_slot, &resume_at) ||
        !read_sites(sites, spec.sites) || !read_exits(exits, spec.exits))
      return nullptr;
    spec.take = take;
    spec.run_pending = run_pending;
    spec.resume_slot = resume_slot;
    if (resume_at >= 0) spec.resume_at = static_cast<uint32_t>(resume_at);
    auto twin = codegen::build_twin(bytecode::decode(code), spec);
    if (!twin) return PyErr_Format(PyExc_ValueError, "%s", twin.error().message.c_str());
    return twin->release();
  });
}

PyObject* twin_list(PyObject*, PyObject* arg) {
  return guarded([&]() -> PyObject* {
    if (code_arg(arg) == nullptr) return nullptr;
    const std::string text = codegen::list_code(arg);
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  });
}

PyMethodDef methods[] = {
    {"twin_layout", twin_layout, METH_O, "twin_layout(code) -> dict\n\nWhere twins can be left and entered."},
    {"twin_kept_depth", twin_kept_depth, METH_VARARGS, "twin_kept_depth(code, site, exit, pending) -> int"},
    {"twin_sites_after", twin_sites_after, METH_VARARGS, "twin_sites_after(code, exit, pending) -> [index]"},
    {"twin_build", twin_build, METH_VARARGS,
     "twin_build(code, [(index, segment)], [(index, pending)], take, run_pending, resume_slot[, resume_at]) -> "
     "code"},
    {"twin_list", twin_list, METH_O, "twin_list(code) -> str\n\nA readable listing."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

int add_twin_bindings(PyObject* module) {
  if (PyModule_AddFunctions(module, methods) != 0) return -1;
  return add_frame_call(module);
}

}  // namespace framejit
