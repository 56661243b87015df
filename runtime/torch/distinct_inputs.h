// Whether the tensors of one call lie apart in memory. Inputs are separate values of a graph, and two of them may be
// views of one storage, or lie over memory of somebody else's (torch.from_numpy): kernels that write inputs keep the
// program's order only where no other input shares what they write.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "runtime/torch/operands.h"

namespace framejit::torchlib {

class DistinctInputs {
 public:
  // `written`: values that kernels write.
  DistinctInputs(const graph::Graph& graph, std::span<const graph::ValueId> written, const ConstantPool& constants);

  // `input`: the tensors of a call. One thread at a time. Cheap where the memory is that of the last call.
  bool hold(const std::function<const at::Tensor&(size_t)>& input);

 private:
  struct Range {
    const char* begin;
    size_t bytes;
    bool written;
  };
  static bool lie_apart(std::vector<Range> ranges);

  std::vector<Range> ranges_;  // of the inputs, as they were last; then those of constants
  size_t input_count_;
  bool held_ = false;
};

}  // namespace framejit::torchlib
