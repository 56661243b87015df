#include "runtime/torch/fx_executable.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include "runtime/python_util.h"
#include "runtime/torch/op_entry.h"
#include "runtime/torch/py_tensor.h"
#include "runtime/torch/trace_stop.h"

namespace framejit::torchlib {

using graph::Operand;
using graph::ValueId;
using runtime::list_of;
using runtime::RunStatus;

namespace {

// Every step may fail with a Python error: then the result is null and nothing more is done.
class Exporter {
 public:
  Exporter(const graph::Graph& graph, const Recording& recording)
      : graph_(graph), recording_(recording), module_(Ref::steal(PyImport_ImportModule("framejit._fx"))) {}

  Ref build();
  Ref examples();

 private:
  Ref call(const char* function, const char* format, long long value) {
    return module_ ? Ref::steal(PyObject_CallMethod(module_.get(), function, format, value)) : Ref();
  }
  Ref value(ValueId id) { return id.valid() ? call("Value", "L", id.value) : Ref::borrow(Py_None); }
  Ref scalar(const Operand& operand);
  Ref operand(const Operand& operand);
  Ref node(const graph::Node& node);

  const graph::Graph& graph_;
  const Recording& recording_;
  Ref module_;
};

Ref integer(int64_t value) { return Ref::steal(PyLong_FromLongLong(value)); }
Ref text(std::string_view value) {
  return Ref::steal(PyUnicode_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size())));
}

Ref Exporter::scalar(const Operand& operand) {
  switch (operand.kind()) {
    case Operand::Kind::kInt:
      return integer(operand.as_int());
    case Operand::Kind::kFloat:
      return Ref::steal(PyFloat_FromDouble(operand.as_float()));
    case Operand::Kind::kBool:
      return Ref::borrow(operand.as_bool() ? Py_True : Py_False);
    default:
      return Ref::steal(PyComplex_FromDoubles(operand.as_complex()[0], operand.as_complex()[1]));
  }
}

Ref Exporter::operand(const Operand& operand) {
  switch (operand.kind()) {
    case Operand::Kind::kNone:
      return Ref::borrow(Py_None);
    case Operand::Kind::kValue:
      return value(operand.as_value());
    case Operand::Kind::kValues:
      return list_of(operand.as_values(), [&](ValueId id) { return value(id); });
    case Operand::Kind::kString:
      return text(operand.as_string());
    case Operand::Kind::kInts:
      return list_of(operand.as_ints(), [](int64_t item) { return integer(item); });
    case Operand::Kind::kFloats:
      return list_of(operand.as_floats(), [](double item) { return Ref::steal(PyFloat_FromDouble(item)); });
    case Operand::Kind::kBools:
      return list_of(operand.as_bools(), [](bool item) { return Ref::borrow(item ? Py_True : Py_False); });
    case Operand::Kind::kScalars:
      return list_of(operand.as_scalars(), [&](const Operand& item) { return scalar(item); });
    case Operand::Kind::kDType:
      return call("dtype", "L", static_cast<long long>(operand.as_dtype()));
    case Operand::Kind::kLayout:
      return call("layout", "L", static_cast<long long>(operand.as_layout()));
    case Operand::Kind::kMemoryFormat:
      return call("memory_format", "L", static_cast<long long>(operand.as_memory_format()));
    case Operand::Kind::kDevice:
      return text(graph::to_string(operand.as_device()));
    case Operand::Kind::kConst:
      PyErr_SetString(PyExc_NotImplementedError, "a generator cannot be exported to torch.fx");
      return {};
    default:
      return scalar(operand);
  }
}

Ref Exporter::node(const graph::Node& node) {
  const OpEntry* op = op_entry_by_id(node.op);
  if (!op) return PyErr_SetString(PyExc_NotImplementedError, "an operator that LibTorch does not have"), Ref();
  Ref arguments = list_of(node.args(), [&](const Operand& item) { return operand(item); });
  Ref keywords = Ref::steal(PyList_New(0));
  for (const c10::Argument& argument : op->handle.schema().arguments())
    if (argument.kwarg_only() && keywords) {
      Ref name = text(argument.name());
      if (!name || PyList_Append(keywords.get(), name.get()) < 0) return {};
    }
  Ref results = Ref::steal(PyList_New(0));
  for (size_t i = 0; i < node.result_count && results; ++i) {
    Ref number = integer(node.result(i).value);
    if (!number || PyList_Append(results.get(), number.get()) < 0) return {};
  }
  if (!arguments || !keywords || !results) return {};
  const char* kind = op->returns.empty()             ? "none"
                     : op->returns.size() > 1        ? "tuple"
                     : op->returns[0].is_tensor_list ? "list"
                                                     : "one";
  const std::string name(op->info->name);
  return Ref::steal(Py_BuildValue("(sOOOs)", name.c_str(), arguments.get(), keywords.get(), results.get(), kind));
}

Ref Exporter::build() {
  auto number = [](ValueId id) { return integer(id.value); };
  Ref inputs = list_of(graph_.inputs(), number);
  Ref constants = Ref::steal(PyList_New(0)), nodes = Ref::steal(PyList_New(0)), outputs = Ref::steal(PyList_New(0));
  if (!module_ || !inputs || !constants || !nodes || !outputs) return {};
  for (size_t n = 0; n < graph_.node_count(); ++n) {
    const graph::Node& item = graph_.node(graph::NodeId(n));
    if (item.erased) continue;
    bool constant = item.operand_count == 1 && item.arg(0).is(Operand::Kind::kConst) && !op_entry_by_id(item.op);
    Ref made;
    if (constant) {
      Ref tensor =
          Ref::steal(wrap_tensor(recording_.recorder.constants().at(item.arg(0).as_const().index()).toTensor()));
      made = tensor ? Ref::steal(Py_BuildValue("(IO)", item.result().value, tensor.get())) : Ref();
    } else {
      made = node(item);
    }
    if (!made || PyList_Append(constant ? constants.get() : nodes.get(), made.get()) < 0) return {};
  }
  for (const OutputSpec& output : recording_.outputs) {
    if (output.input >= 0) continue;
    Ref id = number(output.value);
    if (!id || PyList_Append(outputs.get(), id.get()) < 0) return {};
  }
  return Ref::steal(
      PyObject_CallMethod(module_.get(), "build", "OOOO", inputs.get(), constants.get(), nodes.get(), outputs.get()));
}

Ref Exporter::examples() {
  return list_of(graph_.inputs(), [&](ValueId id) -> Ref {
    const graph::TensorMeta& meta = graph_.meta(id);
    auto dims = [&](std::span<const int64_t> d) { return list_of(d, [](int64_t item) { return integer(item); }); };
    Ref sizes = dims(meta.sizes), strides = dims(meta.strides);
    if (!module_ || !sizes || !strides) return {};
    return Ref::steal(PyObject_CallMethod(module_.get(), "example", "OOisO", sizes.get(), strides.get(),
                                          static_cast<int>(meta.dtype), graph::to_string(meta.device).c_str(),
                                          meta.requires_grad ? Py_True : Py_False));
  });
}

class FxExecutable final : public runtime::Executable {
 public:
  FxExecutable(Ref callable, std::vector<OutputSpec> outputs, size_t input_count)
      : callable_(std::move(callable)), outputs_(std::move(outputs)), input_count_(input_count) {}

  size_t output_count() const override { return outputs_.size(); }

  // The callable is the user's: so are its errors, and what it did before them.
  RunStatus run(PyObject* const* inputs, PyObject** outputs) override {
    return call(inputs, outputs) ? RunStatus::kDone : RunStatus::kRaised;
  }

 private:
  bool call(PyObject* const* inputs, PyObject** outputs) {
    Ref result;
    {
      c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
      result = Ref::steal(_PyObject_Vectorcall(callable_.get(), inputs, input_count_, nullptr));
    }
    if (result && is_tensor_object(result.get())) result = Ref::steal(PyTuple_Pack(1, result.get()));
    Ref items =
        Ref::steal(result ? PySequence_Fast(result.get(), "a back end's callable must return a sequence") : nullptr);
    if (!items) return false;
    return distribute(items.get(), inputs, outputs);
  }

  bool distribute(PyObject* items, PyObject* const* inputs, PyObject** outputs) const {
    Py_ssize_t expected = 0, next = 0;
    for (const OutputSpec& output : outputs_) expected += output.input < 0;
    if (PySequence_Fast_GET_SIZE(items) != expected) {
      PyErr_Format(PyExc_RuntimeError, "the back end's callable returned %zd tensors, expected %zd",
                   PySequence_Fast_GET_SIZE(items), expected);
      return false;
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      outputs[i] = outputs_[i].input >= 0 ? inputs[outputs_[i].input] : PySequence_Fast_GET_ITEM(items, next++);
      Py_INCREF(outputs[i]);
    }
    return true;
  }

  Ref callable_;
  std::vector<OutputSpec> outputs_;
  size_t input_count_;
};

}  // namespace

std::unique_ptr<runtime::Executable> make_fx_executable(const graph::Graph& graph, const Recording& recording,
                                                        PyObject* backend, std::string* why_not) {
  if (recording.recorder.has_mixed_grad_mode()) {
    *why_not = "grad mode changes inside of the captured code, which a graph for a back end cannot say";
    return nullptr;
  }
  if (graph.subgraph_count() > 0) {
    *why_not = "a branch or a loop in the graph, which a graph for a back end cannot say";
    return nullptr;
  }
  for (const OutputSpec& output : recording.outputs)
    if (output.data)
      return *why_not = "an output is `.data` of a tensor, which a graph for a back end cannot say", nullptr;
  Exporter exporter(graph, recording);
  Ref module = exporter.build();
  Ref examples = module ? exporter.examples() : Ref();
  if (!examples) return nullptr;
  Ref callable = Ref::steal(PyObject_CallFunctionObjArgs(backend, module.get(), examples.get(), nullptr));
  if (!callable) return nullptr;
  if (!PyCallable_Check(callable.get())) {
    PyErr_Format(PyExc_TypeError, "a back end must return a callable, got %s", Py_TYPE(callable.get())->tp_name);
    return nullptr;
  }
  return std::make_unique<FxExecutable>(std::move(callable), recording.outputs, graph.inputs().size());
}

}  // namespace framejit::torchlib
