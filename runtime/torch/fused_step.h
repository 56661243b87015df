// A group of nodes that runs as one kernel.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <vector>

#include "codegen/kernels/lower.h"
#include "runtime/torch/cuda_library.h"
#include "runtime/torch/kernel_library.h"

namespace framejit::torchlib {

class FusedStep {
 public:
  // A group on the CPU; one on a CUDA device.
  FusedStep(const graph::Graph& graph, codegen::FusedGroup group, KernelFunction kernel);
  FusedStep(const graph::Graph& graph, codegen::FusedGroup group, std::unique_ptr<const CudaKernel> kernel);

  const std::vector<graph::NodeId>& nodes() const { return group_.nodes; }
  const std::vector<graph::ValueId>& inputs() const { return group_.inputs; }
  const std::vector<graph::ValueId>& outputs() const { return group_.outputs; }

  // `tensors`: the inputs, some of which it writes, then room for the outputs. An input that is given away (`last_use`)
  // may become an output.
  void run(std::span<at::Tensor> tensors, std::span<const bool> last_use) const;

 private:
  struct Result {
    std::vector<int64_t> sizes, strides;
    c10::ScalarType dtype;
    std::vector<uint32_t> reusable;  // inputs of the same layout
  };
  struct Buffers;
  void add_results(const graph::Graph& graph);
  void add_inputs(std::span<at::Tensor> tensors, Buffers& buffers) const;
  void run_kernel(char* const* buffers) const;
  at::Tensor make_output(const Result& result, std::span<at::Tensor> tensors, std::span<const bool> last_use) const;
  void run_rows(char* const* buffers, int64_t begin, int64_t end) const;

  codegen::FusedGroup group_;
  KernelFunction kernel_ = nullptr;
  std::unique_ptr<const CudaKernel> cuda_;
  std::vector<Result> results_;
  std::vector<uint32_t> written_;  // indices of inputs
  std::vector<int64_t> row_strides_;
};

// The kernels of a graph, those that compile. See codegen::fuse.
struct FusedSteps {
  std::vector<std::shared_ptr<const FusedStep>> steps;
  std::vector<graph::ValueId> apart;
};
FusedSteps fused_steps(const graph::Graph& graph, std::span<const graph::ValueId> keep, const std::vector<bool>& skip,
                       bool may_write_inputs);

// For tests: told of each group that is to become a kernel. Null ends it.
using GroupObserver = void (*)(const codegen::FusedGroup&);
void observe_groups(GroupObserver observer);

}  // namespace framejit::torchlib
