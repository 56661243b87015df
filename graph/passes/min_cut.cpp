#include "graph/passes/min_cut.h"

#include <algorithm>

namespace framejit::graph {

uint32_t FlowNetwork::add_place() {
  edges_of_.emplace_back();
  return static_cast<uint32_t>(edges_of_.size() - 1);
}

void FlowNetwork::connect(uint32_t from, uint32_t to, int64_t capacity) {
  edges_of_[from].push_back(static_cast<uint32_t>(edges_.size()));
  edges_.push_back({to, capacity});
  edges_of_[to].push_back(static_cast<uint32_t>(edges_.size()));
  edges_.push_back({from, 0});
}

// Along a shortest way that has room. False: there is none.
bool FlowNetwork::push(uint32_t source, uint32_t sink) {
  constexpr uint32_t kUnreached = 0xffffffffu;
  reached_by_.assign(edges_of_.size(), kUnreached);
  std::vector<uint32_t> queue = {source};
  for (size_t next = 0; next < queue.size() && reached_by_[sink] == kUnreached; ++next)
    for (uint32_t edge : edges_of_[queue[next]]) {
      const uint32_t to = edges_[edge].to;
      if (edges_[edge].left == 0 || to == source || reached_by_[to] != kUnreached) continue;
      reached_by_[to] = edge;
      queue.push_back(to);
    }
  if (reached_by_[sink] == kUnreached) return false;
  int64_t room = kUnlimited;
  for (uint32_t at = sink; at != source; at = edges_[reached_by_[at] ^ 1].to)
    room = std::min(room, edges_[reached_by_[at]].left);
  for (uint32_t at = sink; at != source; at = edges_[reached_by_[at] ^ 1].to) {
    edges_[reached_by_[at]].left -= room;
    edges_[reached_by_[at] ^ 1].left += room;
  }
  return true;
}

std::vector<bool> FlowNetwork::sink_side(uint32_t source, uint32_t sink) {
  while (push(source, sink)) {
  }
  std::vector<bool> reaches(edges_of_.size());
  std::vector<uint32_t> queue = {sink};
  reaches[sink] = true;
  for (size_t next = 0; next < queue.size(); ++next)
    for (uint32_t edge : edges_of_[queue[next]]) {
      const uint32_t from = edges_[edge].to;
      if (reaches[from] || edges_[edge ^ 1].left == 0) continue;
      reaches[from] = true;
      queue.push_back(from);
    }
  return reaches;
}

}  // namespace framejit::graph
