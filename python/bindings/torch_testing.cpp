#include "python/bindings/torch_testing.h"

#include <chrono>

#include "base/py_ref.h"
#include "graph/print.h"
#include "graph/verify.h"
#include "python/bindings/cuda_testing.h"
#include "python/bindings/graph_testing.h"
#include "python/bindings/placed_tensors.h"
#include "runtime/torch/computed_again.h"
#include "runtime/torch/environment.h"
#include "runtime/torch/py_tensor.h"
#include "runtime/torch/recorder.h"
#include "runtime/torch/torch_host.h"

namespace framejit {
namespace {

struct Program {
  graph::Capture capture;
  std::unique_ptr<runtime::Executable> executable;
  size_t output_count = 0;
  double record_seconds = 0, finish_seconds = 0, compile_seconds = 0;
};

struct ProgramObject {
  PyObject_HEAD Program* program;
};

void free_program(PyObject* self) {
  delete reinterpret_cast<ProgramObject*>(self)->program;
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

Program& program_of(PyObject* self) { return *reinterpret_cast<ProgramObject*>(self)->program; }

// program(*tensors) -> tuple of tensors
PyObject* call_program(PyObject* self, PyObject* args, PyObject*) {
  Program& program = program_of(self);
  if (static_cast<size_t>(PyTuple_GET_SIZE(args)) != program.capture.graph.inputs().size())
    return PyErr_Format(PyExc_TypeError, "expected %zu tensors", program.capture.graph.inputs().size());
  std::vector<PyObject*> outputs(program.output_count);
  if (program.executable->run(&PyTuple_GET_ITEM(args, 0), outputs.data()) != runtime::RunStatus::kDone) return nullptr;
  PyObject* result = PyTuple_New(static_cast<Py_ssize_t>(outputs.size()));
  for (size_t i = 0; i < outputs.size(); ++i) PyTuple_SET_ITEM(result, static_cast<Py_ssize_t>(i), outputs[i]);
  return result;
}

PyObject* get_text(PyObject* self, void*) {
  std::string text = graph::to_text(program_of(self).capture.graph);
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

PyObject* get_backward_text(PyObject* self, void*) {
  std::string text;
  for (const graph::Graph* part : program_of(self).executable->backward_graphs()) text += graph::to_text(*part);
  if (text.empty()) Py_RETURN_NONE;
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

PyObject* get_times(PyObject* self, void*) {
  Program& program = program_of(self);
  return Py_BuildValue("(ddd)", program.record_seconds, program.finish_seconds, program.compile_seconds);
}

PyObject* get_ops(PyObject* self, void*) {
  Ref list = Ref::steal(PyList_New(0));
  const graph::Graph& graph = program_of(self).capture.graph;
  for (size_t n = 0; n < graph.node_count(); ++n) {
    std::string name(graph::op_name(graph.node(graph::NodeId(n)).op));
    Ref text = Ref::steal(PyUnicode_FromString(name.c_str()));
    PyList_Append(list.get(), text.get());
  }
  return list.release();
}

PyGetSetDef program_getset[] = {{"text", get_text, nullptr, nullptr, nullptr},
                                {"backward_text", get_backward_text, nullptr, nullptr, nullptr},
                                {"times", get_times, nullptr, nullptr, nullptr},
                                {"ops", get_ops, nullptr, nullptr, nullptr},
                                {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyTypeObject* program_type() {
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(&free_program)},
                                {Py_tp_call, reinterpret_cast<void*>(&call_program)},
                                {Py_tp_getset, program_getset},
                                {0, nullptr}};
  static PyType_Spec spec = {"framejit._C._testing.Program", sizeof(ProgramObject), 0, Py_TPFLAGS_DEFAULT, slots};
  static PyTypeObject* type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return type;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

PyObject* raise_stop(runtime::TensorRuntime& host) {
  std::string reason, detail;
  if (!host.take_stop(&reason, &detail)) return nullptr;
  return PyErr_Format(PyExc_RuntimeError, "%s: %s", reason.c_str(), detail.c_str());
}

// Flattens a tensor, or a tuple or list of such, borrowed.
bool flatten(PyObject* value, std::vector<PyObject*>& out) {
  if (PyTuple_Check(value) || PyList_Check(value)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
      if (!flatten(PySequence_Fast_GET_ITEM(value, i), out)) return false;
    return true;
  }
  out.push_back(value);
  return true;
}

struct EndRecording {
  runtime::TensorRuntime& host;
  ~EndRecording() { host.end(); }
};

bool record_into(runtime::TensorRuntime& host, Program& program, PyObject* function, PyObject* args) {
  auto start = std::chrono::steady_clock::now();
  host.begin(&program.capture, {});
  EndRecording end{host};
  Ref fakes = Ref::steal(PyTuple_New(PyTuple_GET_SIZE(args)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    PyObject* real = PyTuple_GET_ITEM(args, i);
    if (const char* why = host.why_not_capturable(real)) return PyErr_SetString(PyExc_ValueError, why), false;
    Ref fake = host.make_input(real, graph::SourceId(static_cast<uint32_t>(i)));
    if (!fake) return false;
    PyTuple_SET_ITEM(fakes.get(), i, fake.release());
  }
  Ref result = Ref::steal(PyObject_Call(function, fakes.get(), nullptr));
  if (!result) return raise_stop(host), false;
  program.record_seconds = seconds_since(start);
  std::vector<PyObject*> outputs;
  flatten(result.get(), outputs);
  program.output_count = outputs.size();
  start = std::chrono::steady_clock::now();
  std::string why_not;
  RefusedNode refused;
  if (!host.finish(outputs, &why_not, &refused)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, why_not.c_str());
    return false;
  }
  program.finish_seconds = seconds_since(start);
  return true;
}

// record(function, tensors, backend=None) -> Program
PyObject* record(PyObject*, PyObject* args) {
  PyObject *function, *tensors, *backend = Py_None;
  if (!PyArg_ParseTuple(args, "OO!|O", &function, &PyTuple_Type, &tensors, &backend)) return nullptr;
  runtime::TensorRuntime* host = torchlib::torch_runtime();
  if (!host) return nullptr;
  auto program = std::make_unique<Program>();
  try {
    if (!record_into(*host, *program, function, tensors)) return nullptr;
    if (auto problem = graph::verify(program->capture.graph, {.environment = torchlib::infer_environment()}))
      return PyErr_Format(PyExc_AssertionError, "%s", problem->c_str());
    auto start = std::chrono::steady_clock::now();
    std::string why_not;
    program->executable = host->compile(program->capture, backend == Py_None ? nullptr : backend, &why_not);
    program->compile_seconds = seconds_since(start);
    if (!program->executable) return PyErr_Occurred() ? nullptr : PyErr_Format(PyExc_ValueError, "%s", why_not.c_str());
  } catch (const std::exception& error) {
    return PyErr_Format(PyExc_SystemError, "%s", error.what());
  }
  ProgramObject* object = PyObject_New(ProgramObject, program_type());
  if (!object) return nullptr;
  object->program = program.release();
  return reinterpret_cast<PyObject*>(object);
}

PyObject* global_state(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(torchlib::global_state()); }

// matches(tensor, like) -> bool: the guard made from `like`
PyObject* matches(PyObject*, PyObject* args) {
  PyObject *tensor, *like;
  if (!PyArg_ParseTuple(args, "OO", &tensor, &like)) return nullptr;
  runtime::TensorRuntime* host = torchlib::torch_runtime();
  if (!host) return nullptr;
  std::vector<uint64_t> words;
  torchlib::pack_tensor_facts(host->facts(like), words);
  return PyBool_FromLong(torchlib::is_tensor_object(tensor) && torchlib::tensor_matches(tensor, words.data()));
}

// guard_cost(tensor, n) -> (seconds for n tensor guards, seconds for n reads of the global state)
PyObject* guard_cost(PyObject*, PyObject* args) {
  PyObject* tensor;
  int count;
  if (!PyArg_ParseTuple(args, "Oi", &tensor, &count)) return nullptr;
  std::vector<uint64_t> words;
  torchlib::pack_tensor_facts(torchlib::torch_runtime()->facts(tensor), words);
  auto start = std::chrono::steady_clock::now();
  int hits = 0;
  for (int i = 0; i < count; ++i) hits += torchlib::tensor_matches(tensor, words.data());
  double guards = seconds_since(start);
  start = std::chrono::steady_clock::now();
  uint64_t word = 0;
  for (int i = 0; i < count; ++i) word ^= torchlib::global_state();
  double state = seconds_since(start);
  return Py_BuildValue("(ddiK)", guards, state, hits, static_cast<unsigned long long>(word));
}

// set_meta_only(flag) -> bool, as it was: whether each operator asks its Meta kernel, rules of graph/ or not
PyObject* set_meta_only(PyObject*, PyObject* flag) {
  int on = PyObject_IsTrue(flag);
  return on < 0 ? nullptr : PyBool_FromLong(torchlib::Recorder::set_meta_only(on != 0));
}

// set_small(bytes) -> int, as it was: how large a saved tensor may be that is never computed again instead
PyObject* set_small(PyObject*, PyObject* bytes) {
  const long long number = PyLong_AsLongLong(bytes);
  if (number == -1 && PyErr_Occurred()) return nullptr;
  return PyLong_FromLongLong(torchlib::set_least_computed_again(number));
}

PyMethodDef methods[] = {{"record", record, METH_VARARGS, nullptr},
                         {"set_meta_only", set_meta_only, METH_O, nullptr},
                         {"set_small", set_small, METH_O, nullptr},
                         {"has_rule", has_rule, METH_VARARGS, nullptr},
                         {"expression", expression, METH_VARARGS, nullptr},
                         {"evaluate", evaluate_expression, METH_VARARGS, nullptr},
                         {"kernels", kernels_of, METH_O, nullptr},
                         {"global_state", global_state, METH_NOARGS, nullptr},
                         {"matches", matches, METH_VARARGS, nullptr},
                         {"guard_cost", guard_cost, METH_VARARGS, nullptr},
                         {"placed", placed_tensor, METH_VARARGS, nullptr},
                         {"placed_over", tensor_placed_over, METH_VARARGS, nullptr},
                         {"cuda_kernels", cuda_kernels_of, METH_O, nullptr},
                         {"compile_cuda", compile_cuda_text, METH_VARARGS, nullptr},
                         {"use_cuda_libraries", use_cuda_libraries, METH_VARARGS, nullptr},
                         {"collect_cuda", collect_cuda, METH_O, nullptr},
                         {"pretend_cuda", pretend_cuda, METH_O, nullptr},
                         {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "framejit._C._testing", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyObject* make_torch_testing_module() {
  PyObject* module = PyModule_Create(&definition);
  if (module && program_type()) return module;
  Py_XDECREF(module);
  return nullptr;
}

}  // namespace framejit
