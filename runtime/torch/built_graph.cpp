#include "runtime/torch/built_graph.h"

#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/Generator.h>

#include <optional>

#include "base/format.h"
#include "graph/parse.h"
#include "graph/print.h"
#include "graph/verify.h"
#include "runtime/torch/convert.h"
#include "runtime/torch/environment.h"
#include "runtime/torch/fx_export.h"
#include "runtime/torch/graph_hooks.h"
#include "runtime/torch/graph_recorder.h"
#include "runtime/torch/input_fake.h"
#include "runtime/torch/py_tensor.h"
#include "runtime/torch/trace_stop.h"

namespace framejit::torchlib {

using graph::Operand;
using graph::ValueId;

BuiltGraph::BuiltGraph(graph::Graph graph)
    : contents(std::move(graph)), recorder(std::make_unique<GraphRecorder>(&contents, this)) {}

BuiltGraph::~BuiltGraph() = default;

namespace {

// A tensor on the device "meta", and the device that is meant.
Ref input_type(PyObject* args, PyObject* kwargs) {
  c10::impl::ExcludeDispatchKeyGuard no_fake(c10::DispatchKey::Fake);
  Ref module = Ref::steal(PyImport_ImportModule("framejit._graphs"));
  Ref function = Ref::steal(module ? PyObject_GetAttrString(module.get(), "input_type") : nullptr);
  return Ref::steal(function ? PyObject_Call(function.get(), args, kwargs) : nullptr);
}

}  // namespace

Ref add_graph_input(BuiltGraph& graph, PyObject* args, PyObject* kwargs) {
  Ref described = input_type(args, kwargs);
  PyObject* meta;
  const char* device;
  if (!described || !PyArg_ParseTuple(described.get(), "Os", &meta, &device)) return nullptr;
  std::optional<graph::Device> placement = graph::parse_device(device);
  if (!placement) return set_graph_error(fmt::format("a graph cannot name the device '{}'", device)), Ref();
  PyObject* value = nullptr;
  with_translated_errors([&] {
    graph::TensorMeta type = meta_of(*unpack_tensor(meta).unsafeGetTensorImpl());
    type.device = *placement;
    if (!graph::parse_dtype(graph::dtype_name(type.dtype))) refuse_graph("a graph cannot name this dtype");
    value = wrap_tensor(graph.recorder->add_input(type));
    return value != nullptr;
  });
  return Ref::steal(value);
}

bool set_graph_outputs(BuiltGraph& graph, PyObject* values) {
  return with_translated_errors([&] {
    std::vector<ValueId> outputs;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(values); ++i) {
      PyObject* value = PyTuple_GET_ITEM(values, i);
      if (!is_tensor_object(value))
        refuse_graph(fmt::format("output {}: expected a tensor, got {}", i, Py_TYPE(value)->tp_name));
      outputs.push_back(graph.recorder->value_of(unpack_tensor(value), fmt::format("output {}", i).c_str()));
    }
    graph.contents.set_outputs(outputs);
    return true;
  });
}

namespace {

bool knows_operator(std::string_view name) { return op_entry_by_name(name) != nullptr; }

bool read_constants(PyObject* objects, ConstantPool& pool) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(objects); ++i) {
    PyObject* object = PyTuple_GET_ITEM(objects, i);
    if (is_tensor_object(object)) {
      if (const char* why = why_not_strided(unpack_tensor(object))) {
        set_graph_error(fmt::format("constant {}: a graph cannot hold {}", i, why));
        return false;
      }
      pool.emplace_back(unpack_tensor(object));
    } else if (THPGenerator_Check(object)) {
      pool.emplace_back(reinterpret_cast<THPGenerator*>(object)->cdata);
    } else {
      PyErr_Format(PyExc_TypeError, "constant %zd: expected a tensor or a generator, got %s", i,
                   Py_TYPE(object)->tp_name);
      return false;
    }
  }
  return true;
}

}  // namespace

std::shared_ptr<BuiltGraph> parse_built_graph(std::string_view text, PyObject* constants) {
  ConstantPool pool;
  if (!read_constants(constants, pool)) return nullptr;
  auto parsed = graph::parse_graph(text, &knows_operator);
  if (!parsed) return set_graph_error(parsed.error().to_string()), nullptr;
  auto built = std::make_shared<BuiltGraph>(std::move(*parsed));
  built->recorder->set_constants(std::move(pool));
  return built;
}

Ref graph_constants(const BuiltGraph& graph) {
  const ConstantPool& pool = graph.recorder->constants();
  Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(pool.size())));
  if (!tuple) return nullptr;
  const bool made = with_translated_errors([&] {
    for (size_t i = 0; i < pool.size(); ++i) {
      PyObject* object =
          pool[i].isTensor() ? wrap_tensor(pool[i].toTensor()) : THPGenerator_Wrap(pool[i].toGenerator());
      if (!object) return false;
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), object);
    }
    return true;
  });
  return made ? std::move(tuple) : Ref();
}

// What the verifier of graph/ cannot see: the constants themselves, and what only LibTorch can run.
namespace {

class ConstantsCheck {
 public:
  explicit ConstantsCheck(const BuiltGraph& graph) : graph_(graph.contents), pool_(graph.recorder->constants()) {}

  std::optional<std::string> run() {
    for (size_t n = 0; n < graph_.node_count() && !error_; ++n) {
      const graph::Node& node = graph_.node(graph::NodeId(n));
      if (node.erased) continue;
      if (graph::op_name(node.op) == "framejit::constant") {
        check_constant(node);
      } else {
        for (size_t i = 0; i < node.operand_count && !error_; ++i) check_operand(node, i);
      }
    }
    for (ValueId id : graph_.outputs())
      if (!error_ && id.valid() && graph_.value(id).result.kind != graph::ResultKind::kTensor)
        error_ = "output: expected a tensor, got a number";
    return error_;
  }

 private:
  void check_constant(const graph::Node& node) {
    if (node.operand_count != 1 || !node.arg(0).is(Operand::Kind::kConst) || node.result_count != 1)
      return fail(node, "expected one constant and one result");
    const c10::IValue* constant = find(node, node.arg(0));
    if (!constant) return;
    if (!constant->isTensor()) return fail(node, "expected a tensor, got a generator");
    graph::TensorMeta expected = graph_.meta(node.result()), got = meta_of(*constant->toTensor().unsafeGetTensorImpl());
    expected.requires_grad = got.requires_grad = false;
    if (got != expected)
      fail(node, fmt::format("expected {}, got {}", graph::to_string(expected), graph::to_string(got)));
  }

  void check_operand(const graph::Node& node, size_t i) {
    const Operand& operand = node.arg(i);
    if (operand.is(Operand::Kind::kConst)) {
      const c10::IValue* constant = find(node, operand);
      if (constant && !constant->isGenerator())
        fail(node, fmt::format("operand {}: expected a generator, got a tensor; a tensor is a framejit.constant", i));
    }
    graph::for_each_value(operand, [&](ValueId id) {
      if (!error_ && graph_.value(id).result.kind != graph::ResultKind::kTensor)
        fail(node, fmt::format("operand {}: expected a tensor, got a number of another operator", i));
    });
  }

  const c10::IValue* find(const graph::Node& node, const Operand& operand) {
    const size_t index = operand.as_const().index();
    if (index < pool_.size()) return &pool_[index];
    fail(node, fmt::format("expected a constant below {}, got const<{}>; Graph.parse takes the constants", pool_.size(),
                           operand.as_const().value));
    return nullptr;
  }

  void fail(const graph::Node& node, const std::string& what) {
    std::string operands;
    for (const Operand& operand : node.args()) operands += (operands.empty() ? "" : ", ") + graph::to_text(operand);
    error_ = fmt::format("{}({}): {}", graph::op_text(node.op), operands, what);
  }

  const graph::Graph& graph_;
  const ConstantPool& pool_;
  std::optional<std::string> error_;
};

}  // namespace

bool verify_built_graph(const BuiltGraph& graph) {
  bool good = false;
  const bool ran = with_translated_errors([&] {
    std::optional<std::string> error = graph::verify(graph.contents, {.environment = infer_environment()});
    if (!error) error = ConstantsCheck(graph).run();
    if (error) set_graph_error("graph @" + graph.contents.name() + ": " + *error);
    good = !error;
    return good;
  });
  return ran && good;
}

// torch.fx runs all of a graph in the state of who runs it.
static bool has_one_state(const graph::Graph& graph) {
  const graph::NodeState* first = nullptr;
  for (size_t n = 0; n < graph.node_count(); ++n) {
    const graph::Node& node = graph.node(graph::NodeId(n));
    if (node.erased) continue;
    if (!first) first = &node.state;
    if (node.state.inference || node.state != *first) return false;
  }
  return true;
}

Ref graph_to_fx(const BuiltGraph& graph) {
  if (!graph.why_no_fx.empty()) return set_graph_error("to_fx: " + graph.why_no_fx), Ref();
  if (graph.contents.subgraph_count() > 0)
    return set_graph_error("to_fx: a branch or a loop is in the graph, which torch.fx cannot say"), Ref();
  if (!has_one_state(graph.contents))
    return set_graph_error("to_fx: operators run in different states, which torch.fx cannot say"), Ref();
  if (!verify_built_graph(graph)) return nullptr;
  Ref result;
  with_translated_errors([&] {
    result = export_to_fx(graph.contents, graph.recorder->constants(), graph.contents.outputs());
    return static_cast<bool>(result);
  });
  return result;
}

Ref describe_graph_value(PyObject* value) {
  const FakeImpl* fake = is_tensor_object(value) ? fake_impl(unpack_tensor(value)) : nullptr;
  if (!fake || !fake->keeper()) return PyErr_SetString(PyExc_TypeError, "expected a value of a framejit.Graph"), Ref();
  const std::string text = describe_value(*fake);
  return Ref::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

namespace {

class Scope final : public GraphScope {
 public:
  explicit Scope(std::shared_ptr<BuiltGraph> graph)
      : graph_(std::move(graph)), active_(graph_->recorder.get()), no_grad_(false) {
    graph_->guarding_thread = std::this_thread::get_id();
    ++graph_->guards;
  }
  ~Scope() override { --graph_->guards; }

 private:
  std::shared_ptr<BuiltGraph> graph_;
  Recorder::Active active_;
  c10::AutoGradMode no_grad_;
};

const char* why_not_here(const BuiltGraph& graph) {
  if (graph.guards != 0 && graph.guarding_thread != std::this_thread::get_id())
    return "another thread is building this graph";
  if (Recorder::current() && !is_building_graph()) return "a capture is under way on this thread";
  if (c10::impl::TorchDispatchModeTLS::stack_len() > 0) return "a __torch_dispatch__ mode is active";
  if (c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode))
    return "a functorch transform is active";
  if (c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::Fake)) return "a __torch_dispatch__ handler is running";
  return nullptr;
}

}  // namespace

std::unique_ptr<GraphScope> enter_graph(std::shared_ptr<BuiltGraph> graph) {
  if (const char* why = why_not_here(*graph))
    return set_graph_error("graph_guard cannot begin: " + std::string(why)), nullptr;
  return std::make_unique<Scope>(std::move(graph));
}

bool is_building_graph() { return dynamic_cast<GraphRecorder*>(Recorder::current()) != nullptr; }

}  // namespace framejit::torchlib
