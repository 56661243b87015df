#include "runtime/torch/fx_export.h"

#include "runtime/python_util.h"
#include "runtime/torch/op_entry.h"
#include "runtime/torch/py_tensor.h"

namespace framejit::torchlib {

using graph::Operand;
using graph::ValueId;
using runtime::list_of;

namespace {

// Every step may fail with a Python error: then the result is null and nothing more is done.
class Exporter {
 public:
  Exporter(const graph::Graph& graph, const ConstantPool& constants, std::span<const ValueId> outputs)
      : graph_(graph),
        constants_(constants),
        outputs_(outputs),
        module_(Ref::steal(PyImport_ImportModule("framejit._fx"))) {}

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
  const ConstantPool& constants_;
  std::span<const ValueId> outputs_;
  Ref module_;
};

Ref integer(int64_t value) { return Ref::steal(PyLong_FromLongLong(value)); }
Ref text_object(std::string_view value) {
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
      return text_object(operand.as_string());
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
      return text_object(graph::to_string(operand.as_device()));
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
      Ref name = text_object(argument.name());
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
      Ref tensor = Ref::steal(wrap_tensor(constants_.at(item.arg(0).as_const().index()).toTensor()));
      made = tensor ? Ref::steal(Py_BuildValue("(IO)", item.result().value, tensor.get())) : Ref();
    } else {
      made = node(item);
    }
    if (!made || PyList_Append(constant ? constants.get() : nodes.get(), made.get()) < 0) return {};
  }
  for (ValueId output : outputs_) {
    Ref id = output.valid() ? number(output) : Ref::borrow(Py_None);
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

}  // namespace

Ref export_to_fx(const graph::Graph& graph, const ConstantPool& constants, std::span<const ValueId> outputs) {
  return Exporter(graph, constants, outputs).build();
}

Ref fx_examples(const graph::Graph& graph) { return Exporter(graph, {}, {}).examples(); }

}  // namespace framejit::torchlib
