#include "runtime/torch/graph_recorder.h"

#include <torch/csrc/Exceptions.h>

#include <initializer_list>

#include "graph/print.h"
#include "runtime/torch/built_graph.h"
#include "runtime/torch/convert.h"
#include "runtime/torch/graph_hooks.h"
#include "runtime/torch/input_fake.h"
#include "runtime/torch/py_tensor.h"
#include "runtime/torch/trace_stop.h"

namespace framejit::torchlib {

using graph::ValueId;

GraphHooks& graph_hooks() {
  static GraphHooks* instance = new GraphHooks;
  return *instance;
}

void set_graph_error(const std::string& message) {
  PyObject* type = graph_hooks().error_type.get();
  PyErr_SetString(type ? type : PyExc_RuntimeError, message.c_str());
}

namespace {

[[noreturn]] void throw_set_error() {
  python_error error;
  error.persist();
  throw error;
}

}  // namespace

void refuse_graph(const std::string& message) {
  pybind11::gil_scoped_acquire gil;
  set_graph_error(message);
  throw_set_error();
}

namespace {

const graph::Graph& graph_of(const FakeImpl& fake) { return fake.owner()->graph(); }

std::string name_of(const graph::Graph& graph) { return "graph @" + graph.name(); }

}  // namespace

std::string describe_value(const FakeImpl& fake) {
  const graph::Graph& graph = graph_of(fake);
  if (fake.value().index() >= graph.value_count()) return "<value of " + name_of(graph) + " that an error undid>";
  const uint32_t number = graph::text_numbers(graph)[fake.value().index()];
  return "<value %" + std::to_string(number) + ": " + graph::to_string(graph.meta(fake.value())) + " of " +
         name_of(graph) + ">";
}

void refuse_outside_guard(const std::string& op, const FakeImpl& fake) {
  refuse_graph(
      op + " was called on " + describe_value(fake) +
      " outside of its guard; call it inside `with framejit.graph_guard(graph):`, on the thread of that guard");
}

namespace {

struct Depth {
  explicit Depth(int& depth) : depth_(depth) { ++depth_; }
  ~Depth() { --depth_; }
  int& depth_;
};

Ref attribute(PyObject* object, const char* name) {
  Ref interned = Ref::steal(PyUnicode_InternFromString(name));
  return Ref::steal(interned ? PyObject_GetAttr(object, interned.get()) : nullptr);
}

std::string text_of(PyObject* object, const char* name) {
  Ref value = attribute(object, name);
  const char* text = value && PyUnicode_Check(value.get()) ? PyUnicode_AsUTF8(value.get()) : nullptr;
  PyErr_Clear();
  return text ? text : "";
}

// The innermost line that is not torch's or framejit's.
graph::LocationId callers_location(graph::Graph& graph) {
  Ref frame = Ref::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame && frame.get() != Py_None) {
    Ref code = attribute(frame.get(), "f_code");
    if (!code) break;
    const std::string file = text_of(code.get(), "co_filename");
    if (!graph_hooks().library_prefixes.begins(file)) {
      Ref line = attribute(frame.get(), "f_lineno");
      const long number = line && PyLong_Check(line.get()) ? PyLong_AsLong(line.get()) : 0;
      PyErr_Clear();
      if (file.find('\n') != std::string::npos) return {};
      return graph.intern_location(file, text_of(code.get(), "co_name"), static_cast<int>(number));
    }
    frame = attribute(frame.get(), "f_back");
  }
  PyErr_Clear();
  return {};
}

std::string error_of_stop(const graph::Graph& graph, const std::string& op, const std::string& reason,
                          const std::string& detail) {
  if (reason == "DataDependentValue")
    return op + " asks for the data of a value, and there is none before an Executor runs " + name_of(graph) +
           "; compute with the value itself (torch.where for a choice), or pass a Python number to the function";
  if (reason == "DataDependentShape")
    return "the shape of what " + op + " returns depends on data, which is not known while " + name_of(graph) +
           " is built; use a form with a fixed shape (torch.where with three arguments, a mask)";
  return detail + ", so " + name_of(graph) + " cannot hold it";
}

// Words a stop of the trace for somebody who builds a graph; any other error stays what it is.
[[noreturn]] void throw_in_words(const graph::Graph& graph, const OpEntry& op, python_error& error) {
  error.restore();
  std::string reason, detail;
  if (take_trace_stop(&reason, &detail)) set_graph_error(error_of_stop(graph, op.info->name, reason, detail));
  throw_set_error();
}

void refuse_resizing_a_constant(const graph::Graph& graph, const OpEntry& op, const torch::jit::Stack& stack) {
  if (!op.info->has(graph::kOpMetaInPlace)) return;
  const c10::IValue& first = stack[stack.size() - op.args.size()];
  if (first.isTensor() && first.toTensor().defined() && !fake_impl(first.toTensor()))
    refuse_graph(op.info->name + " changes the sizes of a real tensor, which " + name_of(graph) +
                 " cannot hold; call it before the guard, or on a value");
}

}  // namespace

void GraphRecorder::record(const OpEntry& op, torch::jit::Stack& stack) {
  pybind11::gil_scoped_acquire gil;
  if (depth_ > 0) return Recorder::record(op, stack);
  Depth scope(depth_);
  refuse_resizing_a_constant(*graph_, op, stack);
  const Mark mark{graph_->node_count(), graph_->value_count(), graph_->inputs().size(), constants_.size()};
  set_location(callers_location(*graph_));
  try {
    Recorder::record(op, stack);
  } catch (python_error& error) {
    roll_back(mark);
    throw_in_words(*graph_, op, error);
  } catch (...) {
    roll_back(mark);
    throw;
  }
}

void GraphRecorder::roll_back(const Mark& mark) {
  // A tensor whose sizes were changed in place has a value of its own, which must stay.
  for (size_t n = mark.nodes; n < graph_->node_count(); ++n)
    if (graph::op_info(graph_->node(graph::NodeId(n)).op).has(graph::kOpMetaInPlace)) return;
  forget_values_from(ValueId(mark.values));
  graph_->truncate(mark.nodes, mark.values, mark.inputs);
  constants_.resize(mark.constants);
}

void GraphRecorder::adopt(const at::Tensor& fake) const {
  pybind11::gil_scoped_acquire gil;
  Ref object = Ref::steal(wrap_tensor(fake));
  if (!object || PyObject_SetAttrString(object.get(), "__class__", graph_hooks().value_type.get()) < 0)
    throw_set_error();
}

at::Tensor GraphRecorder::new_fake(const graph::TensorMeta& meta, ValueId value, c10::Storage storage,
                                   c10::DispatchKeySet extra) {
  at::Tensor fake = Recorder::new_fake(meta, value, std::move(storage), extra);
  fake_impl(fake)->set_keeper(std::shared_ptr<const FakeKeeper>(owner_->shared_from_this(), this));
  adopt(fake);
  return fake;
}

ValueId GraphRecorder::value_of_real(const at::Tensor& tensor, const std::string& who) {
  const char* why = why_not_strided(tensor);
  if (!why && (tensor.is_conj() || tensor.is_neg()))
    why = "a tensor with the conjugate or negative bit; resolve_conj() and resolve_neg() give one without";
  if (why) refuse_graph(who + ": " + name_of(*graph_) + " cannot hold " + why);
  return constant_value(tensor);
}

ValueId GraphRecorder::value_of_other(const OpEntry& op, const at::Tensor& tensor) {
  return value_of(tensor, op.info->name.c_str());
}

ValueId GraphRecorder::value_of(const at::Tensor& tensor, const char* what_for) {
  const FakeImpl* fake = fake_impl(tensor);
  if (fake && fake->owner() == this) return fake->value();
  if (fake && fake->keeper())
    refuse_graph(std::string(what_for) + ": expected a value of " + name_of(*graph_) + ", got " +
                 describe_value(*fake));
  return value_of_real(tensor, what_for);
}

}  // namespace framejit::torchlib
