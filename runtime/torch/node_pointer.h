// Nodes of autograd's graph are held by shared_ptr or intrusive_ptr, by release.
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

}  // namespace framejit::torchlib
