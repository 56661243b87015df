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

  // Whether they were apart.
  bool join(uint32_t one, uint32_t other) {
    const uint32_t a = lowest(one), b = lowest(other);
    lower_[std::max(a, b)] = std::min(a, b);
    return a != b;
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

// What one group's backward gives an input: how many gradients, and the number in autograd's sequence of the last
// operation that gives one.
struct Arrival {
  size_t count = 0;
  uint64_t sequence = 0;
};
using Arrivals = std::map<uint32_t, Arrival>;  // by group

// Whether their sum is the same, in bits and layout, when each group's are added up first, and groups come one after
// the other: nodes that are made later run earlier, as eager's do. `order`: of each group, in which nodes are made.
bool may_be_added_apart(const Arrivals& arrivals, const std::vector<uint32_t>& order) {
  if (arrivals.size() < 2) return true;
  if (arrivals.size() > 2) return false;
  const auto& [first, a] = *arrivals.begin();
  const auto& [second, b] = *arrivals.rbegin();
  return order[first] == order[second] ||
         (a.count == 1 && b.count == 1 && (order[first] < order[second]) == (a.sequence < b.sequence));
}

// The number of the cluster of each group.
std::vector<uint32_t> cluster_groups(const std::vector<Arrivals>& inputs, size_t groups) {
  DisjointSets meeting(groups);
  for (;;) {  // a cluster that has grown may come before another than it did
    std::vector<uint32_t> order = meeting.numbers();
    bool joined = false;
    for (const Arrivals& arrivals : inputs) {
      if (may_be_added_apart(arrivals, order)) continue;
      for (const auto& [group, arrival] : arrivals) joined |= meeting.join(group, arrivals.begin()->first);
    }
    if (!joined) return order;
  }
}

size_t count_of(const std::vector<uint32_t>& numbers) {
  return numbers.empty() ? 0 : *std::max_element(numbers.begin(), numbers.end()) + size_t{1};
}

}  // namespace

RootGroups root_groups(const Recording& recording) {
  const auto input_at = inputs_by_end(recording);
  const size_t roots = recording.roots.size();
  DisjointSets within(roots);
  std::unordered_map<const Node*, uint32_t> first_root;
  struct Edge {  // from a node of a root's history to an input
    uint32_t root, input;
    uint64_t sequence;
  };
  std::vector<Edge> edges;
  for (uint32_t root = 0; root < roots; ++root)
    for_each_node({recording.root_fakes[root]}, [&](const Node& node) {
      if (is_accumulator(node) || input_at.count(&node)) return;
      const auto [first, is_new] = first_root.try_emplace(&node, root);
      within.join(root, first->second);
      if (!is_new) return;
      for (const auto& edge : node.next_edges())
        if (const auto input = input_at.find(edge.function.get()); input != input_at.end())
          edges.push_back({root, input->second, node.sequence_nr()});
    });

  RootGroups result;
  result.group_of = within.numbers();
  result.count = count_of(result.group_of);
  std::vector<Arrivals> arrivals(recording.inputs.size());
  for (const auto& [root, input, sequence] : edges) {
    Arrival& arrival = arrivals[input][result.group_of[root]];
    ++arrival.count;
    arrival.sequence = std::max(arrival.sequence, sequence);
  }

  const std::vector<uint32_t> cluster_of = cluster_groups(arrivals, result.count);
  result.clusters.resize(count_of(cluster_of));
  for (uint32_t root = 0; root < roots; ++root)
    result.clusters[cluster_of[result.group_of[root]]].roots.push_back(root);
  for (uint32_t input = 0; input < recording.differentiable_inputs.size(); ++input)
    for (const auto& [group, arrival] : arrivals[recording.differentiable_inputs[input]]) {
      std::vector<uint32_t>& inputs = result.clusters[cluster_of[group]].inputs;
      if (inputs.empty() || inputs.back() != input) inputs.push_back(input);
    }
  return result;
}

}  // namespace framejit::torchlib
