#include "runtime/torch/results_below.h"

#include <unordered_map>

#include "runtime/torch/node_pointer.h"

namespace framejit::torchlib {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;

namespace {

using To = BlockExit::To;

// Over the exits of a block and of those behind it, each block behind one that leads to it.
class Walk {
 public:
  explicit Walk(const History& history) : history_(history), seen_(history.blocks.size()) {}

  template <class See>
  void run(size_t block, const See& see) {
    std::vector<size_t> pending = {block};
    seen_[block] = true;
    while (!pending.empty()) {
      const size_t at = pending.back();
      pending.pop_back();
      for (size_t i = 0; i < history_.blocks[at].exits.size(); ++i) {
        const BlockExit& exit = history_.blocks[at].exits[i];
        see(at, i, exit);
        if (exit.to != To::kBlock || seen_[exit.block]) continue;
        seen_[exit.block] = true;
        pending.push_back(exit.block);
      }
    }
  }
  bool came_to(size_t block) const { return seen_[block]; }

 private:
  const History& history_;
  std::vector<bool> seen_;
};

size_t first_edge_of(const HistoryBlock& block, size_t exit, bool sums) {
  if (sums) return exit;
  size_t edge = 0;
  for (size_t i = 0; i < exit; ++i) edge += block.exits[i].arrivals.size();
  return edge;
}

}  // namespace

std::vector<ResultBelow> results_below(const Recording& recording, const History& history, size_t block) {
  std::vector<ResultBelow> found;
  std::vector<bool> has_view(recording.outputs.size());
  Walk walk(history);
  walk.run(block, [&](size_t, size_t, const BlockExit& exit) {
    if (exit.to != To::kView || has_view[exit.index]) return;
    has_view[exit.index] = true;
    found.push_back({recording.outputs[exit.index].value, over_cuts(exit.arrivals.front()), To::kView, 0, exit.index});
  });
  auto add = [&](graph::ValueId value, const ResultPlace& place) {
    if (place.block != block && walk.came_to(place.block))
      found.push_back({value, history.blocks[place.block].entries[place.entry], To::kBlock, place.block, place.entry});
  };
  for (size_t root = 0; root < history.roots.size(); ++root) add(recording.roots[root], history.roots[root]);
  for (const auto& [output, place] : history.views) add(recording.outputs[output].value, place);
  return found;
}

edge_list edges_to(const std::vector<ResultBelow>& results, const History& history, size_t block, const Node& node,
                   bool sums) {
  if (results.empty()) return {};
  std::unordered_map<size_t, NodePtr> nodes;
  std::unordered_map<uint32_t, Edge> views;
  Walk(history).run(block, [&](size_t at, size_t number, const BlockExit& exit) {
    const Node& from = at == block ? node : *nodes.at(at);
    const Edge& edge = from.next_edge(first_edge_of(history.blocks[at], number, sums));
    if (exit.to == To::kBlock) nodes.emplace(exit.block, edge.function);
    if (exit.to == To::kView) views.emplace(exit.index, edge);
  });
  edge_list edges;
  for (const ResultBelow& result : results)
    edges.push_back(result.to == To::kView ? views.at(result.index) : Edge(nodes.at(result.block), result.index));
  return edges;
}

}  // namespace framejit::torchlib
