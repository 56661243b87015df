#include "runtime/torch/root_groups.h"

#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "runtime/torch/history.h"

namespace framejit::torchlib {

using torch::autograd::Node;

std::vector<uint32_t> root_groups(const Recording& recording) {
  std::unordered_set<const Node*> ends;
  for (uint32_t i : recording.differentiable_inputs)
    ends.insert(torch::autograd::impl::gradient_edge(recording.inputs[i].fake).function.get());

  // The lowest root stands for its group, and points to itself.
  std::vector<uint32_t> lower(recording.roots.size());
  std::iota(lower.begin(), lower.end(), 0u);
  auto lowest = [&](uint32_t root) {
    while (lower[root] != root) root = lower[root];
    return root;
  };
  std::unordered_map<const Node*, uint32_t> first_root;
  for (uint32_t root = 0; root < lower.size(); ++root)
    for_each_node({recording.root_fakes[root]}, [&](const Node& node) {
      if (is_accumulator(node) || ends.count(&node)) return;
      const uint32_t a = lowest(root), b = lowest(first_root.try_emplace(&node, root).first->second);
      lower[std::max(a, b)] = std::min(a, b);
    });

  std::vector<uint32_t> groups;
  uint32_t count = 0;
  for (uint32_t root = 0; root < lower.size(); ++root)
    groups.push_back(lower[root] == root ? count++ : groups[lowest(root)]);
  return groups;
}

}  // namespace framejit::torchlib
