#include "runtime/torch/cast_inputs.h"

#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <optional>

#include "graph/alias.h"
#include "runtime/torch/cast_order.h"
#include "runtime/torch/convert.h"
#include "runtime/torch/distinct_inputs.h"
#include "runtime/torch/gil.h"
#include "runtime/torch/node_pointer.h"
#include "runtime/torch/op_entry.h"
#include "runtime/torch/py_tensor.h"
#include "runtime/torch/trace_stop.h"

namespace framejit::torchlib {

using graph::NodeId;
using graph::ValueId;
using runtime::RunStatus;

namespace {

// Scope in which autocast casts to a type and keeps what it casts.
class Casting {
 public:
  Casting(c10::DeviceType device, c10::ScalarType type)
      : device_(device),
        type_(at::autocast::get_autocast_dtype(device)),
        cache_(at::autocast::is_autocast_cache_enabled()) {
    if (type_ != type) at::autocast::set_autocast_dtype(device, type);
    at::autocast::set_autocast_cache_enabled(true);
  }
  ~Casting() {
    at::autocast::set_autocast_dtype(device_, type_);
    at::autocast::set_autocast_cache_enabled(cache_);
  }
  Casting(const Casting&) = delete;
  Casting& operator=(const Casting&) = delete;

 private:
  const c10::DeviceType device_;
  const c10::ScalarType type_;
  const bool cache_;
};

// The cache is asked in LibTorch's own words, which cast what it does not have.
class NoCasts final : public Recorder {
 public:
  struct Asked {};
  NoCasts() : Recorder(nullptr) {}
  void record(const OpEntry&, torch::jit::Stack&) override { throw Asked(); }
};

at::Tensor cached_cast_of(const at::Tensor& fake, c10::ScalarType type) {
  NoCasts no_casts;
  const Recorder::Active active(&no_casts);
  const Casting casting(fake.device().type(), type);
  try {
    return at::autocast::cached_cast(type, fake, fake.device().type());
  } catch (const NoCasts::Asked&) {
    return {};
  }
}

struct Cast {
  uint32_t leaf;  // in Recording::inputs
  at::Tensor fake;
  NodeId node;
};

class CastInputs {
 public:
  CastInputs(Recording& recording, graph::Capture& capture, bool history)
      : recording_(recording), capture_(capture), graph_(recording.recorder.graph()), history_(history) {}

  RefusedNode take() {
    if (RefusedNode refused = find(); refused.id.valid()) return refused;
    for (const Cast& cast : casts_)
      if (RefusedNode refused = refused_for(cast); refused.id.valid()) return refused;
    if (stay_inside()) return {};
    for (const Cast& cast : casts_) make_input(cast);
    return {};
  }

 private:
  RefusedNode find();
  void count_reads();
  bool stay_inside() const { return capture_.keeps_casts && !history_; }
  RefusedNode refused_for(const Cast& cast);
  bool is_written_before(const Cast& cast);
  void make_input(const Cast& cast);

  Recording& recording_;
  graph::Capture& capture_;
  graph::Graph& graph_;
  const bool history_;
  std::vector<Cast> casts_;
  std::vector<uint32_t> reads_;  // by value
};

void CastInputs::count_reads() {
  reads_.assign(graph_.value_count(), 0);
  for (size_t n = 0; n < graph_.node_count(); ++n) {
    const graph::Node& node = graph_.node(NodeId(n));
    if (node.erased) continue;
    for (const graph::Operand& operand : node.args())
      graph::for_each_value(operand, [&](ValueId read) { ++reads_[read.index()]; });
  }
}

// In the order in which they are made.
RefusedNode CastInputs::find() {
  static const graph::OpId to_copy = op_entry_by_name("aten::_to_copy")->id;
  std::vector<bool> known(recording_.inputs.size());
  recording_.cast_once.clear();
  for (size_t n = 0; n < graph_.node_count(); ++n) {
    const graph::Node& node = graph_.node(NodeId(n));
    if (node.erased || node.op != to_copy || !node.arg(0).is_value()) continue;
    const graph::Value& leaf = graph_.value(node.arg(0).as_value());
    if (!leaf.is_input() || known[leaf.index]) continue;
    const InputFake& input = recording_.inputs[leaf.index];
    if (!input.requires_grad || input.grad_fn) continue;
    if (reads_.empty()) count_reads();
    const bool is_shared = reads_[node.result().index()] > 1;
    if (input.is_view && is_shared)
      return {NodeId(n), "a cast of a leaf that is a view, which autocast makes anew for each operator"};
    const at::Tensor cast = cached_cast_of(input.fake, from_dtype(graph_.meta(node.result()).dtype));
    FakeImpl* fake = cast.defined() ? fake_impl(cast) : nullptr;
    if (!fake || fake->value() != node.result()) {
      if (is_shared) recording_.cast_once.push_back(leaf.index);
      continue;
    }
    known[leaf.index] = true;
    casts_.push_back({leaf.index, cast, NodeId(n)});
  }
  return {};
}

RefusedNode CastInputs::refused_for(const Cast& cast) {
  if (!recording_.state.in_autocast_region() || recording_.finds_old_casts())
    return {cast.node, "autocast keeps a cast for a region that goes on after the graph"};
  if (!stay_inside() && is_written_before(cast)) return {cast.node, "autocast casts a leaf that the graph has written"};
  return {};
}

bool CastInputs::is_written_before(const Cast& cast) {
  if (!graph::writes_anything(graph_)) return false;
  const graph::AliasClasses aliases(graph_);
  std::vector<ValueId> written;
  for (size_t n = 0; n < cast.node.index(); ++n) {
    const graph::Node& node = graph_.node(NodeId(n));
    if (node.erased) continue;
    graph::written_values(graph_, node, written);
    for (ValueId id : written) {
      if (aliases.may_alias(id, recording_.inputs[cast.leaf].value)) return true;
      recording_.casts_pass_writes |= aliases.is_input(id);
    }
  }
  return false;
}

void CastInputs::make_input(const Cast& cast) {
  const auto input = static_cast<uint32_t>(graph_.inputs().size());
  const ValueId value = graph_.make_input(cast.node);
  graph_.mutable_meta(value).requires_grad = cast.fake.requires_grad();
  const bool inference = cast.fake.is_inference();
  const bool grad_mode = cast.fake.requires_grad();
  capture_.input_sources.push_back(capture_.input_sources[cast.leaf]);
  recording_.casts.push_back({input, cast.leaf, grad_mode, inference, recording_.inputs[cast.leaf].is_view});
  InputFake made{cast.fake, value};
  made.requires_grad = grad_mode;
  const NodePtr history = cast.fake.grad_fn();
  made.grad_fn = history.get();
  // Gradients end there.
  if (history) history->set_next_edges({});
  recording_.inputs.push_back(std::move(made));
}

class CastingExecutable final : public runtime::Executable {
 public:
  CastingExecutable(const graph::Graph& graph, const Recording& recording, std::unique_ptr<runtime::Executable> program)
      : graph_(graph),
        casts_(recording.casts),
        cast_once_(recording.cast_once),
        history_matters_(recording.state.grad_mode() || recording.recorder.has_mixed_grad_mode()),
        program_(std::move(program)) {
    if (recording.casts_pass_writes)
      apart_.emplace(graph, graph::written_inputs(graph), recording.recorder.constants(),
                     DistinctInputs::Extent::kElements);
  }

  size_t output_count() const override { return program_->output_count(); }
  std::vector<const graph::Graph*> backward_graphs() const override { return program_->backward_graphs(); }
  Ref graph_object(std::vector<std::string> sources) const override {
    return program_->graph_object(std::move(sources));
  }

  RunStatus run(PyObject* const* inputs, PyObject** outputs) override {
    for (uint32_t leaf : cast_once_)
      if (unpack_tensor(inputs[leaf]).is_view()) return RunStatus::kUndone;
    if (casts_.empty()) return program_->run(inputs, outputs);
    std::vector<PyObject*> all(inputs, inputs + graph_.inputs().size());
    std::vector<Ref> made;
    const bool given = with_translated_errors([&] {
      return (!apart_ || apart_->hold([&](size_t i) -> const at::Tensor& { return unpack_tensor(inputs[i]); })) &&
             give_casts(all, made);
    });
    return given ? program_->run(all.data(), outputs) : RunStatus::kUndone;
  }

 private:
  bool give_casts(std::vector<PyObject*>& inputs, std::vector<Ref>& made) const {
    std::vector<at::Tensor> tensors;
    {
      const AllowThreads no_gil;  // another thread may be casting, with the cache locked
      begin_casts_of_call();
      for (const CastInput& cast : casts_) {
        tensors.push_back(cast_of(unpack_tensor(inputs[cast.input]), cast));
        if (!tensors.back().defined()) return false;
      }
    }
    for (size_t i = 0; i < casts_.size(); ++i) {
      made.push_back(Ref::steal(wrap_tensor(std::move(tensors[i]))));
      if (!made.back()) return false;
      inputs[casts_[i].input] = made.back().get();
    }
    return true;
  }
  at::Tensor cast_of(const at::Tensor& leaf, const CastInput& cast) const;
  bool is_expected(const at::Tensor& made, const CastInput& cast) const;

  const graph::Graph& graph_;  // the capture's, which lives as long
  const std::vector<CastInput> casts_;
  const std::vector<uint32_t> cast_once_;
  const bool history_matters_;
  std::optional<DistinctInputs> apart_;
  std::unique_ptr<runtime::Executable> program_;
};

bool CastingExecutable::is_expected(const at::Tensor& made, const CastInput& cast) const {
  const graph::TensorMeta& expected = graph_.meta(graph_.inputs()[cast.input]);
  return to_dtype(made.scalar_type()) == expected.dtype && made.sizes() == to_array(expected.sizes) &&
         made.strides() == to_array(expected.strides) && made.is_inference() == cast.inference &&
         (made.requires_grad() == cast.grad_mode || !history_matters_);
}

// Undefined if the cache has another.
at::Tensor CastingExecutable::cast_of(const at::Tensor& leaf, const CastInput& cast) const {
  if (leaf.is_view() != cast.of_view) return {};
  const c10::ScalarType type = from_dtype(graph_.meta(graph_.inputs()[cast.input]).dtype);
  const Casting casting(leaf.device().type(), type);
  std::optional<c10::InferenceMode> inference;
  if (cast.inference != c10::InferenceMode::is_enabled()) inference.emplace(cast.inference);
  const c10::AutoGradMode grad_mode(cast.grad_mode);
  at::Tensor made = at::autocast::cached_cast(type, leaf, leaf.device().type());
  return is_expected(made, cast) ? made : at::Tensor();
}

}  // namespace

RefusedNode take_cast_inputs(Recording& recording, graph::Capture& capture, const std::vector<at::Tensor>& outputs) {
  const bool history =
      std::any_of(outputs.begin(), outputs.end(), [](const at::Tensor& output) { return output.requires_grad(); });
  return CastInputs(recording, capture, history).take();
}

std::unique_ptr<runtime::Executable> with_casts(const graph::Graph& graph, const Recording& recording,
                                                std::unique_ptr<runtime::Executable> program) {
  return std::make_unique<CastingExecutable>(graph, recording, std::move(program));
}

}  // namespace framejit::torchlib
