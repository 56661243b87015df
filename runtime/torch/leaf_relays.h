// Nodes in front of the leaves of one call, where hooks of leaves can tell in which order these get their gradients.
// The engine runs the node of a leaf as soon as its gradient is there, so what stands in front of it decides.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "runtime/torch/history_blocks.h"
#include "runtime/torch/node_pointer.h"
#include "runtime/torch/recording.h"

namespace framejit::torchlib {

class LeafRelays {
 public:
  // There are none unless a leaf has hooks. `inputs`: of the graph. `sums`: see TrainingProgram. All must outlive this.
  LeafRelays(const Recording& recording, const History& history, const at::Tensor* inputs, bool sums);

  // Those that are made in front of the block's node, which comes next. Operations of views have a place among them:
  // `make_view` makes that of an output.
  template <class F>
  void make_in_front_of(size_t block, F&& make_view) {
    for (; are_needed_ && made_ < history_.ends.size() && history_.ends[made_].in_front_of == block; ++made_) {
      const HistoryEnd& end = history_.ends[made_];
      const BlockExit& exit = history_.blocks[end.block].exits[end.exit];
      if (exit.to == BlockExit::To::kView) {
        make_view(exit.index);
      } else {
        make(end, exit);
      }
    }
  }

  // What gradients go to that leave by this exit, the first arrival's in front. Null: straight to where it leads.
  NodePtr relay_of(const BlockExit& exit) const {
    return are_needed_ && exit.end != BlockExit::kNoEnd ? relays_[exit.end] : nullptr;
  }

 private:
  void make(const HistoryEnd& end, const BlockExit& exit);

  const Recording& recording_;
  const History& history_;
  const at::Tensor* inputs_;
  const bool sums_;
  bool are_needed_ = false;
  size_t made_ = 0;
  std::vector<NodePtr> relays_;  // beside History::ends; null: a view
};

}  // namespace framejit::torchlib
