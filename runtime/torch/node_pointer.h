// Nodes of autograd's graph are held by shared_ptr or intrusive_ptr, and know of their inputs less or more, by release.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace framejit::torchlib {

using NodePtr = decltype(torch::autograd::Edge::function);

template <class T, class... Args>
auto make_node(Args&&... args) {
  if constexpr (std::is_same_v<NodePtr, std::shared_ptr<torch::autograd::Node>>) {
    // Long chains of nodes are taken apart without recursion. Found by its argument: not all releases have it.
    return std::shared_ptr<T>(new T(std::forward<Args>(args)...), [](auto* node) { deleteNode(node); });
  } else {
    return c10::make_intrusive<T>(std::forward<Args>(args)...);
  }
}

template <class Self, class Ptr = NodePtr>
Ptr pointer_to(Self* self) {
  if constexpr (std::is_same_v<Ptr, std::shared_ptr<torch::autograd::Node>>) {
    return self->getptr();
  } else {
    return Ptr::reclaim_copy(self);
  }
}

// A further input of `node`, for gradients like those that `metadata` tells of.
template <class N, class Metadata>
void add_metadata_like(N& node, const Metadata& metadata, bool is_subclass) {
  const auto shape = metadata.shape_as_dim_vector();
  if constexpr (requires { node.add_input_metadata(metadata.options(), shape, is_subclass, false); }) {
    node.add_input_metadata(metadata.options(), shape, is_subclass, false);
  } else {
    node.add_input_metadata(metadata.options(), shape, is_subclass, false, metadata.grad_dtype());
  }
}

}  // namespace framejit::torchlib
