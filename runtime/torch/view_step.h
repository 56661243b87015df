// Views whose sizes and strides the graph knows: made without LibTorch's dispatcher.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "graph/graph.h"

namespace framejit::torchlib {

class ViewStep {
 public:
  // Null: the node is none, or LibTorch has to make them.
  static std::shared_ptr<const ViewStep> find(const graph::Graph& graph, const graph::Node& node);

  // Whether they are of this tensor what they are of one that is nothing but memory.
  static bool serves(const at::Tensor& base);
  // As the operator's kernel below autograd makes it: a tensor with a version counter of its own.
  at::Tensor make(const at::Tensor& base, size_t result) const;

 private:
  struct View {
    std::vector<int64_t> sizes, strides;
    int64_t offset;  // from the element at which the base begins
  };
  std::vector<View> views_;
};

}  // namespace framejit::torchlib
