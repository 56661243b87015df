// Lists of indices by a source that each hangs on: the members of all lists in one vector.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/source.h"

namespace framejit::runtime {

class ByOwner {
 public:
  void sort(const std::vector<graph::SourceId>& owners, size_t source_count) {
    begin_.assign(source_count + 1, 0);
    for (graph::SourceId owner : owners)
      if (owner.valid()) ++begin_[owner.index() + 1];
    for (size_t i = 0; i < source_count; ++i) begin_[i + 1] += begin_[i];
    indices_.resize(begin_.back());
    std::vector<uint32_t> next = begin_;
    for (uint32_t i = 0; i < owners.size(); ++i)
      if (owners[i].valid()) indices_[next[owners[i].index()]++] = i;
  }
  std::span<const uint32_t> of(graph::SourceId owner) const {
    return std::span(indices_).subspan(begin_[owner.index()], begin_[owner.index() + 1] - begin_[owner.index()]);
  }

 private:
  std::vector<uint32_t> begin_, indices_;
};

}  // namespace framejit::runtime
