// A node of autograd in front of a leaf, for when the engine comes to the leaf: it takes of what is ready the node with
// the largest sequence number, and a leaf as soon as its gradient is there.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "runtime/torch/node_pointer.h"

namespace framejit::torchlib {

// Each gradient goes on by itself, so that the leaf adds up what it would without this.
class LeafRelay final : public torch::autograd::Node {
 public:
  // With the next number of the sequence.
  LeafRelay(std::string name, const torch::autograd::Edge& leaf, size_t gradients) : name_(std::move(name)) {
    add(leaf, gradients);
  }
  LeafRelay(uint64_t number, std::string name, const torch::autograd::Edge& leaf, size_t gradients)
      : Node(number), name_(std::move(name)) {
    add(leaf, gradients);
  }
  std::string name() const override { return name_; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return std::move(gradients);
  }

 private:
  void add(const torch::autograd::Edge& leaf, size_t gradients) {
    const auto& metadata = leaf.function->input_metadata(leaf.input_nr);
    for (size_t i = 0; i < gradients; ++i) {
      add_metadata_like(*this, metadata, metadata.is_tensor_subclass());
      add_next_edge(leaf);
    }
  }

  const std::string name_;
};

}  // namespace framejit::torchlib
