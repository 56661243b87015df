// Walks over the graph that autograd keeps of tensors.
#pragma once

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_set>
#include <vector>

namespace framejit::torchlib {

// Each node that a backward of these goes over, once; nothing behind `end`. LibTorch makes the node of a leaf when it
// is asked for, and lets it go with the last that holds it: those of the roots are held here.
template <class F>
void for_each_node(const std::vector<at::Tensor>& roots, F&& visit, const torch::autograd::Node* end = nullptr) {
  using torch::autograd::Node;
  std::unordered_set<const Node*> seen;
  std::vector<Node*> pending;
  torch::autograd::edge_list begin;
  for (const at::Tensor& root : roots)
    if (root.requires_grad()) begin.push_back(torch::autograd::impl::gradient_edge(root));
  for (const auto& edge : begin) pending.push_back(edge.function.get());
  while (!pending.empty()) {
    Node* node = pending.back();
    pending.pop_back();
    if (!node || !seen.insert(node).second) continue;
    visit(*node);
    if (node == end) continue;
    for (const auto& edge : node->next_edges()) pending.push_back(edge.function.get());
  }
}

// Whether gradients end here, in a leaf.
inline bool is_accumulator(const torch::autograd::Node& node) {
  return node.next_edges().empty() && node.name() == "torch::autograd::AccumulateGrad";
}

// Whether it keeps tensors for its backward, or may: then a second backward raises once they are freed. Also where what
// it keeps is a number that the graph has as a number.
bool saves_tensors(const torch::autograd::Node& node);

// Whether the node that adds to a leaf's gradient has hooks.
bool has_node_hooks(const at::Tensor& tensor);
// Whether it or anything else is called with a tensor's gradient, or the gradient is kept.
bool has_gradient_hooks(const at::Tensor& tensor);

}  // namespace framejit::torchlib
