#include "runtime/torch/root_groups.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>

#include "runtime/torch/history.h"

namespace framejit::torchlib {

using torch::autograd::Node;

namespace {

// Sets of roots, or of their groups; the lowest stands for its set.
class DisjointSets {
 public:
  explicit DisjointSets(size_t count) : lower_(count) { std::iota(lower_.begin(), lower_.end(), 0u); }

  void join(uint32_t one, uint32_t other) {
    const uint32_t a = lowest(one), b = lowest(other);
    lower_[std::max(a, b)] = std::min(a, b);
  }
  // The number of the set of each, from 0 in order of their lowest.
  std::vector<uint32_t> numbers() const {
    std::vector<uint32_t> numbers;
    uint32_t count = 0;
    for (uint32_t i = 0; i < lower_.size(); ++i) numbers.push_back(lower_[i] == i ? count++ : numbers[lowest(i)]);
    return numbers;
  }

 private:
  uint32_t lowest(uint32_t i) const {
    while (lower_[i] != i) i = lower_[i];
    return i;
  }

  std::vector<uint32_t> lower_;
};

// Gradients of one input: how many a backward of each group gives it.
using Arrivals = std::map<uint32_t, size_t>;

// Whether their sum is the same, to the bit, when each group's are added up first.
bool may_be_added_apart(const Arrivals& arrivals) {
  if (arrivals.size() < 2) return true;
  return arrivals.size() == 2 && arrivals.begin()->second == 1 && arrivals.rbegin()->second == 1;
}

size_t count_of(const std::vector<uint32_t>& numbers) {
  return numbers.empty() ? 0 : *std::max_element(numbers.begin(), numbers.end()) + size_t{1};
}

}  // namespace

RootGroups root_groups(const Recording& recording) {
  std::unordered_map<const Node*, uint32_t> input_at;
  for (uint32_t i = 0; i < recording.differentiable_inputs.size(); ++i) {
    const at::Tensor& fake = recording.inputs[recording.differentiable_inputs[i]].fake;
    input_at.emplace(torch::autograd::impl::gradient_edge(fake).function.get(), i);
  }

  const size_t roots = recording.roots.size();
  DisjointSets within(roots);
  std::unordered_map<const Node*, uint32_t> first_root;
  std::vector<std::pair<uint32_t, uint32_t>> edges;  // from a node of a root's history to an input
  for (uint32_t root = 0; root < roots; ++root)
    for_each_node({recording.root_fakes[root]}, [&](const Node& node) {
      if (is_accumulator(node) || input_at.count(&node)) return;
      const auto [first, is_new] = first_root.try_emplace(&node, root);
      within.join(root, first->second);
      if (!is_new) return;
      for (const auto& edge : node.next_edges())
        if (const auto input = input_at.find(edge.function.get()); input != input_at.end())
          edges.emplace_back(root, input->second);
    });

  RootGroups result;
  result.group_of = within.numbers();
  result.count = count_of(result.group_of);
  std::vector<Arrivals> arrivals(recording.differentiable_inputs.size());
  for (const auto& [root, input] : edges) ++arrivals[input][result.group_of[root]];

  DisjointSets meeting(result.count);
  for (const Arrivals& of_input : arrivals)
    if (!may_be_added_apart(of_input))
      for (const auto& [group, count] : of_input) meeting.join(group, of_input.begin()->first);
  const std::vector<uint32_t> cluster_of = meeting.numbers();
  result.clusters.resize(count_of(cluster_of));
  for (uint32_t root = 0; root < roots; ++root)
    result.clusters[cluster_of[result.group_of[root]]].roots.push_back(root);
  for (uint32_t input = 0; input < arrivals.size(); ++input)
    for (const auto& [group, count] : arrivals[input]) {
      std::vector<uint32_t>& inputs = result.clusters[cluster_of[group]].inputs;
      if (inputs.empty() || inputs.back() != input) inputs.push_back(input);
    }
  return result;
}

}  // namespace framejit::torchlib
