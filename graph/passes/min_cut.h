// Minimum cuts of networks with one source and one sink (Edmonds and Karp, Journal of the ACM 19, 1972).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace framejit::graph {

class FlowNetwork {
 public:
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max() / 4;

  uint32_t add_place();
  void connect(uint32_t from, uint32_t to, int64_t capacity);
  // Whether each place is on the sink's side of the least cut that is nearest to the sink. Call it once.
  std::vector<bool> sink_side(uint32_t source, uint32_t sink);

 private:
  struct Edge {
    uint32_t to;
    int64_t left;  // of its capacity; the edge beside it (index ^ 1) is the way back
  };
  bool push(uint32_t source, uint32_t sink);

  std::vector<Edge> edges_;
  std::vector<std::vector<uint32_t>> edges_of_;  // by place
  std::vector<uint32_t> reached_by_;             // by place: the edge, of the last search
};

}  // namespace framejit::graph
