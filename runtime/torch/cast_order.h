// When autocast casts a leaf for a graph, it does so before the graph's nodes of autograd are made. In eager some
// operations may have read the leaf before: what they give for it is added up behind the gradient of the cast.
//
// The engine takes of what is ready the node with the largest sequence number. A call leaves the number before those of
// its casts free, for a node that hands such gradients on.
#pragma once

#include <vector>

#include "runtime/torch/node_pointer.h"
#include "runtime/torch/recording.h"

namespace framejit::torchlib {

// Before the casts of a call.
void begin_casts_of_call();

// Of the call that has just made its casts; no node has been made since.
class CastOrder {
 public:
  CastOrder(const Recording& recording, const at::Tensor* inputs);

  // Where gradients for `leaf` go, `count` of them by edges of their own, that come behind this one of
  // Recording::casts: the inputs of the node from 0 on. Null: straight to the leaf.
  NodePtr behind(uint32_t cast, const at::Tensor& leaf, size_t count) const;

 private:
  std::vector<uint64_t> numbers_;  // beside Recording::casts
  uint64_t free_;                  // those that the call has not found in the cache have larger ones
};

}  // namespace framejit::torchlib
