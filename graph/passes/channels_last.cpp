#include "graph/passes/channels_last.h"

#include <unordered_map>

#include "graph/alias.h"
#include "graph/builder.h"
#include "graph/generated/builders.h"
#include "graph/generated/op_ids.h"
#include "graph/passes/onednn.h"
#include "graph/passes/relayout.h"

namespace framejit::graph {
namespace {

// LibTorch computes images of batch 1 with fewer elements itself.
constexpr int64_t kFewestElements = 20480;

class Layouter {
 public:
  Layouter(const Graph& from, const InferEnvironment& environment)
      : from_(from), values_(from, to_, environment), builder_(to_, environment), aliases_(from) {}

  std::optional<ChangedGraph> run() {
    find_written();
    for (ValueId input : from_.inputs()) values_.add_input(input);
    for (size_t n = 0; n < from_.node_count(); ++n) {
      const Node& node = from_.node(NodeId(static_cast<uint32_t>(n)));
      if (!node.erased && !(is_better_channels_last(node) ? add_convolution(node) : values_.add(node)))
        return std::nullopt;
    }
    ChangedGraph relaid;
    // A copy costs about what a convolution saves.
    if (!values_.finish(relaid.values) || 2 * (copied_ + values_.copied()) > convolved_) return std::nullopt;
    relaid.graph = std::move(to_);
    return relaid;
  }

  // Whether LibTorch gives the node to oneDNN.
  static bool is_of_images(const Graph& graph, const Node& node) {
    if (node.op != ops::k_convolution || !is_plain_convolution(graph, node)) return false;
    const TensorMeta& image = graph.meta(node.arg(0).as_value());
    return image.sizes[0] > 1 || image.numel() > kFewestElements;
  }

 private:
  void find_written() {
    written_.resize(aliases_.size());
    std::vector<ValueId> written;
    for (size_t n = 0; n < from_.node_count(); ++n) {
      const Node& node = from_.node(NodeId(static_cast<uint32_t>(n)));
      if (node.erased) continue;
      written_values(from_, node, written);
      for (ValueId id : written) written_[aliases_.of(id)] = true;
    }
  }

  // Invalid: it could not be made.
  ValueId image(ValueId old) {
    const ValueId now = values_.at(old);
    const TensorMeta& meta = to_.meta(now);
    const bool in_any = meta.sizes[2] * meta.sizes[3] == 1;
    if (in_any || meta.suggest_memory_format() == MemoryFormat::kChannelsLast) return now;
    if (auto found = images_.find(old.value); found != images_.end()) return found->second;
    const Result<ValueId, BuildError> copy = ops::clone(builder_, now, MemoryFormat::kChannelsLast);
    if (!copy) return {};
    copied_ += meta.numel();
    if (!written_[aliases_.of(old)]) images_[old.value] = *copy;
    return *copy;
  }

  // LibTorch lays a weight with a window out as the images are: where it is larger than they, they are copied instead.
  bool is_better_channels_last(const Node& node) const {
    if (!is_of_images(from_, node)) return false;
    const TensorMeta& weight = from_.meta(node.arg(1).as_value());
    const bool has_window = weight.sizes[2] * weight.sizes[3] > 1;
    return !has_window ||
           weight.numel() <= from_.meta(node.arg(0).as_value()).numel() + from_.meta(node.result()).numel();
  }

  bool add_convolution(const Node& node) {
    builder_.set_location(values_.location(node));
    const ValueId input = image(node.arg(0).as_value()), weight = values_.at(node.arg(1).as_value());
    if (!input.valid()) return false;
    convolved_ += from_.meta(node.result()).numel();
    const ValueId bias = node.arg(2).is_value() ? values_.at(node.arg(2).as_value()) : ValueId();
    const std::optional<TensorArg> shift = bias.valid() ? std::optional<TensorArg>(bias) : std::nullopt;
    const Result<ValueId, BuildError> result =
        ops::convolution(builder_, input, weight, shift, node.arg(3).as_ints(), node.arg(4).as_ints(),
                         node.arg(5).as_ints(), false, node.arg(7).as_ints(), node.arg(8).as_int());
    return result && values_.put(node.result(), *result);
  }

  const Graph& from_;
  Graph to_{"channels_last"};
  Relayout values_;
  Builder builder_;
  const AliasClasses aliases_;
  std::vector<bool> written_;                     // by alias class
  std::unordered_map<uint32_t, ValueId> images_;  // by value of the original: a copy that is channels last
  int64_t copied_ = 0, convolved_ = 0;            // elements
};

bool has_images(const Graph& graph) {
  for (size_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node(NodeId(static_cast<uint32_t>(n)));
    if (!node.erased && Layouter::is_of_images(graph, node)) return true;
  }
  return false;
}

}  // namespace

std::optional<ChangedGraph> lay_out_channels_last(const Graph& graph, const InferEnvironment& environment) {
  if (!has_images(graph)) return std::nullopt;
  return Layouter(graph, environment).run();
}

}  // namespace framejit::graph
