// What lower.cpp and written_out.cpp make kernels with.
#pragma once

#include <unordered_map>
#include <vector>

#include "codegen/kernels/kernel_builder.h"
#include "graph/expression.h"
#include "graph/graph.h"

namespace framejit::codegen {

// Reads the nodes' expressions into one kernel.
class Lowering {
 public:
  Lowering(const graph::Graph& graph, KernelBuilder& builder) : graph_(graph), builder_(builder) {}

  void add(const graph::Node& node);
  const std::vector<graph::ValueId>& inputs() const { return inputs_; }
  const std::vector<graph::ValueId>& written() const { return written_; }
  // How they are laid out among the dimensions of the others.
  const std::vector<graph::TensorMeta>& input_metas() const { return input_metas_; }
  // What a tensor holds now, or -1: these nodes do not make it.
  int16_t value(graph::ValueId id) const {
    for (const auto* values : {&values_, &channels_})
      if (const auto found = values->find(id.value); found != values->end()) return found->second;
    return -1;
  }

  // Whether some node is computed as oneDNN does it, in LibTorch's place.
  bool is_onednns() const { return is_onednns_; }

  // For what is written out.
  const graph::TensorMeta& meta(graph::ValueId id) const { return graph_.meta(id); }
  KernelBuilder& builder() { return builder_; }
  // The numbers of a tensor.
  int16_t tensor(graph::ValueId id);
  // Those of a vector with one for each channel, the dimension behind the first of a tensor of that rank.
  int16_t channels(graph::ValueId id, int64_t rank);
  void set(graph::ValueId result, int16_t step) { values_[result.value] = step; }
  // Writes such a vector.
  void set_channels(graph::ValueId id, int16_t step);

 private:
  int16_t result_of(const graph::Node& node);
  void add_target(graph::ValueId target);
  void add_written(graph::ValueId target);
  int16_t at(const graph::Node& node, const graph::Expression& expression, int16_t id);
  int16_t leaf(const graph::Node& node, const graph::ExpressionNode& leaf);
  int16_t argument(const graph::Node& node, const graph::ExpressionNode& leaf);
  int16_t load(graph::ValueId source, graph::TensorMeta meta);
  graph::DType compute_type(const graph::Node& node, const graph::Expression& expression) const;
  bool has_kind(const graph::Expression& expression) const;

  const graph::Graph& graph_;
  KernelBuilder& builder_;
  std::vector<graph::ValueId> inputs_;
  std::vector<graph::TensorMeta> input_metas_;
  std::vector<graph::ValueId> written_;           // of the inputs
  std::unordered_map<uint32_t, int16_t> values_;  // by tensor: the step that it holds now
  // The same for vectors with one number for each channel. None of them is among `values_`.
  std::unordered_map<uint32_t, int16_t> channels_;
  // Of the node that is being read.
  graph::DType type_ = graph::DType::kUndefined;
  graph::DType promoted_ = graph::DType::kUndefined;
  std::vector<int16_t> read_;  // by node of the expression
  bool is_onednns_ = false;
};

}  // namespace framejit::codegen
