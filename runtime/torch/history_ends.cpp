#include "runtime/torch/history_ends.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <string>
#include <unordered_map>
#include <utility>

namespace framejit::torchlib {

using torch::autograd::Edge;
using torch::autograd::Node;

namespace {

// When the engine comes to an exit: how many operations have run before.
struct ReachedEnd {
  uint32_t operations, block, exit;
  std::string operation;  // the last that has a gradient for it
};

// What the engine's queue has, in its order. Of leaves, which all come first, the queue itself decides which is next.
struct Task {
  uint64_t sequence;
  size_t number;
  bool operator<(const Task& other) const { return sequence < other.sequence; }
};
constexpr uint64_t kLeaf = std::numeric_limits<uint64_t>::max();

bool is_leaf(const Recording& recording, const BlockExit& exit) {
  return exit.to == BlockExit::To::kInput &&
         recording.inputs[recording.differentiable_inputs[exit.index]].fake.is_leaf();
}

// A run of the engine in which each block has the leaves for itself, so that it tells of backwards of a part as well.
class EngineRun {
 public:
  EngineRun(const History& history, const Recording& recording, const std::vector<PlacedOperation>& operations)
      : operations_(operations) {
    for (uint32_t block = 0; block < history.blocks.size(); ++block)
      for (uint32_t i = 0; i < history.blocks[block].exits.size(); ++i)
        if (const BlockExit& exit = history.blocks[block].exits[i]; exit.to == BlockExit::To::kView) {
          add_end(block, i, exit, over_cuts(exit.arrivals.front()).function->sequence_nr());
        } else if (is_leaf(recording, exit)) {
          add_end(block, i, exit, kLeaf);
        }
    for (const PlacedOperation& operation : operations) {
      numbers_[operation.node] = waits_for_.size();
      waits_for_.push_back(0);
    }
    for (const PlacedOperation& operation : operations)
      for (const Edge& edge : operation.node->next_edges())
        if (const auto next = numbers_.find(over_cuts(edge).function.get()); next != numbers_.end())
          ++waits_for_[next->second];
  }

  // In order.
  std::vector<ReachedEnd> run() {
    for (size_t i = 0; i < operations_.size(); ++i)
      if (waits_for_[ends_.size() + i] == 0) queue_.push({operations_[i].node->sequence_nr(), ends_.size() + i});
    std::vector<ReachedEnd> reached;
    for (uint32_t ran = 0; !queue_.empty();) {
      const size_t number = queue_.top().number;
      queue_.pop();
      if (number < ends_.size()) {
        ends_[number].operations = ran;
        reached.push_back(std::move(ends_[number]));
      } else {
        run(*operations_[number - ends_.size()].node);
        ++ran;
      }
    }
    return reached;
  }

 private:
  void add_end(uint32_t block, uint32_t exit, const BlockExit& from, uint64_t sequence) {
    for (const Edge& arrival : from.arrivals) numbers_[arrival.function.get()] = ends_.size();
    ends_.push_back({0, block, exit, {}});
    sequences_.push_back(sequence);
    waits_for_.push_back(from.arrivals.size());
  }

  void run(const Node& operation) {
    for (const Edge& edge : operation.next_edges()) {
      auto next = numbers_.find(edge.function.get());
      if (next == numbers_.end()) next = numbers_.find(over_cuts(edge).function.get());
      if (next == numbers_.end() || --waits_for_[next->second] > 0) continue;
      const size_t number = next->second;
      if (number < ends_.size()) ends_[number].operation = operation.name();
      queue_.push({number < ends_.size() ? sequences_[number] : over_cuts(edge).function->sequence_nr(), number});
    }
  }

  const std::vector<PlacedOperation>& operations_;
  std::vector<ReachedEnd> ends_;     // numbered in front of the operations
  std::vector<uint64_t> sequences_;  // beside ends_
  std::vector<size_t> waits_for_;    // by number
  std::unordered_map<const Node*, size_t> numbers_;
  std::priority_queue<Task> queue_;
};

// A block gives all that it has at once, and leaves it to the engine's queue which leaf comes first. So its exits stand
// as they must be pushed on an empty queue to come out in the order of `leaves`: as their numbers.
std::vector<uint32_t> order_of_exits(const std::vector<uint32_t>& leaves, size_t count) {
  std::priority_queue<Task> queue;
  for (size_t i = 0; i < count; ++i) queue.push({i < leaves.size() ? kLeaf : 0, i});
  std::vector<bool> is_leaf(count);
  std::vector<uint32_t> order(leaves.size());
  for (uint32_t leaf : leaves) {
    order[queue.top().number] = leaf;
    is_leaf[leaf] = true;
    queue.pop();
  }
  for (uint32_t i = 0; i < count; ++i)
    if (!is_leaf[i]) order.push_back(i);
  return order;
}

// `ends`: of the block.
void order_exits(HistoryBlock& block, const std::vector<ReachedEnd*>& ends) {
  std::vector<uint32_t> leaves;
  for (const ReachedEnd* end : ends)
    if (block.exits[end->exit].to == BlockExit::To::kInput) leaves.push_back(end->exit);
  const std::vector<uint32_t> order = order_of_exits(leaves, block.exits.size());
  std::vector<uint32_t> moved_to(order.size());
  std::vector<BlockExit> exits;
  for (uint32_t i = 0; i < order.size(); ++i) {
    exits.push_back(std::move(block.exits[order[i]]));
    moved_to[order[i]] = i;
  }
  block.exits = std::move(exits);
  for (ReachedEnd* end : ends) end->exit = moved_to[end->exit];
}

std::vector<uint32_t> first_operations(const std::vector<PlacedOperation>& operations, size_t blocks) {
  std::vector<uint32_t> first(blocks);
  for (size_t i = operations.size(); i-- > 0;) first[operations[i].block] = static_cast<uint32_t>(i);
  return first;
}

}  // namespace

void find_ends(History& history, const Recording& recording, const std::vector<PlacedOperation>& operations) {
  std::vector<ReachedEnd> ends = EngineRun(history, recording, operations).run();
  std::vector<std::vector<ReachedEnd*>> of_blocks(history.blocks.size());
  for (ReachedEnd& end : ends) of_blocks[end.block].push_back(&end);
  for (size_t block = 0; block < of_blocks.size(); ++block) order_exits(history.blocks[block], of_blocks[block]);
  const std::vector<uint32_t> begins = first_operations(operations, history.blocks.size());
  for (auto end = ends.rbegin(); end != ends.rend(); ++end) {
    uint32_t in_front_of = end->block;
    while (in_front_of > 0 && begins[in_front_of - 1] < end->operations) --in_front_of;
    history.ends.push_back({end->block, end->exit, in_front_of, std::move(end->operation)});
  }
  auto is_made_first = [](const HistoryEnd& a, const HistoryEnd& b) { return a.in_front_of < b.in_front_of; };
  std::stable_sort(history.ends.begin(), history.ends.end(), is_made_first);
  for (uint32_t i = 0; i < history.ends.size(); ++i)
    history.blocks[history.ends[i].block].exits[history.ends[i].exit].end = i;
}

}  // namespace framejit::torchlib
