// Whether the tensors of one call lie apart in memory. Inputs are separate values of a graph, and two of them may be
// views of one storage, or lie over memory of somebody else's (torch.from_numpy): what writes inputs rests on it that
// no other input shares what is written.
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
  // What must lie apart: the elements of the tensors, or all of the storages that they are in, as views of one storage
  // share their version.
  enum class Extent : uint8_t { kElements, kStorage };

  // `written`: values that are written.
  DistinctInputs(const graph::Graph& graph, std::span<const graph::ValueId> written, const ConstantPool& constants,
                 Extent extent);

  // `input`: the tensors of a call. One thread at a time. Cheap where the memory is that of the last call.
  bool hold(const std::function<const at::Tensor&(size_t)>& input);

 private:
  struct Range {
    const char* begin;
    size_t bytes;
    bool written;
    bool empty;  // it has no elements, or no memory that kernels write
  };
  // False if it was elsewhere before.
  bool place(Range& range, const at::Tensor& tensor) const;
  static bool lie_apart(std::vector<Range> ranges);

  Extent extent_;
  std::vector<Range> ranges_;  // of the inputs, as they were last; then those of constants
  size_t input_count_;
  bool held_ = false;
};

}  // namespace framejit::torchlib
