// framejit.Executor: the reference executor over a graph that a program built.
#include <c10/core/GradMode.h>

#include <algorithm>

#include "base/format.h"
#include "graph/print.h"
#include "runtime/torch/aten_executable.h"
#include "runtime/torch/built_graph.h"
#include "runtime/torch/convert.h"
#include "runtime/torch/graph_hooks.h"
#include "runtime/torch/graph_recorder.h"
#include "runtime/torch/input_fake.h"
#include "runtime/torch/py_tensor.h"
#include "runtime/torch/trace_stop.h"

namespace framejit::torchlib {
namespace {

using graph::ValueId;

// An operator with an offset of its own reads memory by its place in the storage.
bool reads_offsets(const graph::Graph& graph) {
  for (size_t n = 0; n < graph.node_count(); ++n) {
    const graph::Node& node = graph.node(graph::NodeId(n));
    if (!node.erased && graph::op_name(node.op).find("as_strided") != std::string_view::npos) return true;
  }
  return false;
}

class Executor final : public GraphExecutor {
 public:
  explicit Executor(const BuiltGraph& built) : graph_(built.contents.clone()), reads_offsets_(reads_offsets(graph_)) {
    c10::AutoGradMode no_grad(false);
    auto recording = std::make_shared<Recording>(&graph_);
    recording->recorder.set_constants(built.recorder->constants());
    for (ValueId id : graph_.outputs())
      if (id.valid()) recording->outputs.push_back({id, input_index(id), false});
    for (const c10::IValue& constant : recording->recorder.constants())
      differentiable_constant_ |= constant.isTensor() && constant.toTensor().requires_grad();
    executable_ = make_aten_executable(graph_, std::move(recording), nullptr, OnFailure::kRaise);
  }

  const graph::Graph& graph() const override { return graph_; }

  Ref call(PyObject* const* inputs, size_t count) const override {
    if (!check(inputs, count)) return nullptr;
    std::vector<PyObject*> outputs(executable_->output_count());
    if (executable_->run(inputs, outputs.data()) != runtime::RunStatus::kDone) return nullptr;
    return result_of(outputs);
  }

 private:
  int input_index(ValueId id) const {
    const graph::Value& value = graph_.value(id);
    return value.is_input() ? static_cast<int>(value.index) : -1;
  }

  bool fail(const std::string& what) const {
    set_graph_error("Executor of graph @" + graph_.name() + ": " + what);
    return false;
  }

  bool check(PyObject* const* inputs, size_t count) const {
    if (is_building_graph())
      return fail("a graph runs outside of graph_guard; inside, call the function that built it");
    if (count != graph_.inputs().size()) {
      PyErr_Format(PyExc_TypeError, "Executor of graph @%s: expected %zu inputs, got %zu", graph_.name().c_str(),
                   graph_.inputs().size(), count);
      return false;
    }
    for (size_t i = 0; i < count; ++i)
      if (!check_input(i, inputs[i])) return false;
    if (c10::GradMode::is_enabled() && differentiable_constant_)
      return fail(
          "a constant requires grad, and a graph runs below autograd; call it under torch.no_grad(), or run "
          "graph.to_fx()");
    return true;
  }

  bool check_input(size_t i, PyObject* object) const {
    const std::string expected = graph::to_string(graph_.meta(graph_.inputs()[i]));
    if (!is_tensor_object(object)) {
      PyErr_Format(PyExc_TypeError, "Executor of graph @%s: input %zu: expected %s, got %s", graph_.name().c_str(), i,
                   expected.c_str(), Py_TYPE(object)->tp_name);
      return false;
    }
    auto refuse = [&](const std::string& got) {
      return fail(fmt::format("input {}: expected {}, got {}", i, expected, got));
    };
    const at::Tensor& tensor = unpack_tensor(object);
    if (const FakeImpl* fake = fake_impl(tensor); fake && fake->keeper()) return refuse(describe_value(*fake));
    if (const char* why = why_not_input(object)) return refuse(why);
    if (tensor.is_conj() || tensor.is_neg()) return refuse("a tensor with the conjugate or negative bit");
    graph::TensorMeta got = meta_of(*tensor.unsafeGetTensorImpl());
    const graph::TensorMeta& wanted = graph_.meta(graph_.inputs()[i]);
    got.wrapped_number = wanted.wrapped_number;
    got.requires_grad = wanted.requires_grad;
    if (!reads_offsets_) got.storage_offset = wanted.storage_offset;
    if (got != wanted) return refuse(graph::to_string(got));
    if (tensor.requires_grad() && c10::GradMode::is_enabled())
      return refuse(
          "a tensor that requires grad, and a graph runs below autograd; call it under torch.no_grad(), or "
          "run graph.to_fx()");
    return true;
  }

  // `outputs`: the tensors of outputs that are not none, owned.
  Ref result_of(const std::vector<PyObject*>& outputs) const {
    const auto& ids = graph_.outputs();
    Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(ids.size())));
    size_t next = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      PyObject* item = ids[i].valid() ? outputs[next++] : Py_None;
      if (!ids[i].valid()) Py_INCREF(item);
      if (tuple) {
        PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), item);
      } else {
        Py_DECREF(item);
      }
    }
    if (tuple && ids.size() == 1) return Ref::borrow(PyTuple_GET_ITEM(tuple.get(), 0));
    return tuple;
  }

  graph::Graph graph_;
  bool reads_offsets_;
  bool differentiable_constant_ = false;
  std::unique_ptr<runtime::Executable> executable_;
};

}  // namespace

std::unique_ptr<GraphExecutor> make_graph_executor(const BuiltGraph& graph) {
  std::unique_ptr<GraphExecutor> executor;
  if (!verify_built_graph(graph)) return nullptr;
  with_translated_errors([&] {
    executor = std::make_unique<Executor>(graph);
    return true;
  });
  return executor;
}

}  // namespace framejit::torchlib
