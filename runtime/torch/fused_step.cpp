#include "runtime/torch/fused_step.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/SmallVector.h>

#include <algorithm>

#include "codegen/kernels/fuse.h"
#include "runtime/torch/convert.h"

namespace framejit::torchlib {

namespace {

// Elements that are worth a thread of their own, as in LibTorch's elementwise kernels.
constexpr int64_t kGrain = 32768;

using Buffers = c10::SmallVector<char*, 16>;

// Kernels read memory: what a tensor says beside it is done first.
void make_plain(at::Tensor& tensor) {
  constexpr c10::DispatchKeySet kLazy({c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor});
  if (!tensor.key_set().has_any(kLazy)) return;
  tensor = tensor._is_zerotensor() ? at::zeros_like(tensor) : tensor.resolve_neg();
}

bool reduces(const codegen::Kernel& kernel) {
  return std::any_of(kernel.steps.begin(), kernel.steps.end(),
                     [](const codegen::Step& step) { return step.kind == codegen::Step::Kind::kReduce; });
}

}  // namespace

FusedStep::FusedStep(const graph::Graph& graph, codegen::FusedGroup group, KernelFunction kernel)
    : group_(std::move(group)), kernel_(kernel) {
  for (size_t b = 0; b < group_.kernel.buffers.size(); ++b) row_strides_.push_back(group_.loop.row_stride(b));
  for (graph::ValueId output : group_.outputs) {
    const graph::TensorMeta& meta = graph.meta(output);
    Result& result = results_.emplace_back();
    result.sizes.assign(meta.sizes.begin(), meta.sizes.end());
    result.strides.assign(meta.strides.begin(), meta.strides.end());
    result.dtype = from_dtype(meta.dtype);
    if (reduces(group_.kernel)) continue;  // a later pass over the row reads inputs again
    for (size_t i = 0; i < group_.inputs.size(); ++i) {
      const graph::TensorMeta& input = graph.meta(group_.inputs[i]);
      if (input.sizes == meta.sizes && input.strides == meta.strides && input.dtype == meta.dtype)
        result.reusable.push_back(static_cast<uint32_t>(i));
    }
  }
}

// Memory that nobody else reads any more: each element is read before it is written.
at::Tensor FusedStep::make_output(const Result& result, std::span<at::Tensor> tensors,
                                  std::span<const bool> last_use) const {
  for (uint32_t i : result.reusable) {
    at::Tensor& input = tensors[i];
    if (!last_use[i] || !input.defined() || input.use_count() != 1 || input.storage().use_count() != 1 ||
        !input.storage().resizable() || input.storage_offset() != 0 ||
        input.storage().nbytes() != static_cast<size_t>(input.numel() * input.element_size()))
      continue;
    return std::move(input);
  }
  return at::detail::empty_strided_cpu(result.sizes, result.strides, result.dtype);
}

void FusedStep::run(std::span<at::Tensor> tensors, std::span<const bool> last_use) const {
  const size_t input_count = group_.inputs.size();
  Buffers buffers;
  for (size_t i = 0; i < input_count; ++i) {
    make_plain(tensors[i]);
    buffers.push_back(const_cast<char*>(static_cast<const char*>(tensors[i].const_data_ptr())));
  }
  for (size_t i = 0; i < results_.size(); ++i) {
    at::Tensor output = make_output(results_[i], tensors.first(input_count), last_use);
    buffers.push_back(static_cast<char*>(output.data_ptr()));
    tensors[input_count + i] = std::move(output);
  }
  const codegen::Loop& loop = group_.loop;
  if (loop.sizes.size() == 1) {
    at::parallel_for(0, loop.row(), kGrain, [&](int64_t begin, int64_t end) {
      Buffers from(buffers);
      for (size_t b = 0; b < from.size(); ++b) from[b] += begin * row_strides_[b];
      kernel_(from.data(), end - begin, row_strides_.data());
    });
    return;
  }
  const int64_t grain = std::max<int64_t>(1, kGrain / loop.row());
  at::parallel_for(0, loop.rows(), grain, [&](int64_t begin, int64_t end) { run_rows(buffers.data(), begin, end); });
}

void FusedStep::run_rows(char* const* buffers, int64_t begin, int64_t end) const {
  const codegen::Loop& loop = group_.loop;
  const size_t outer = loop.sizes.size() - 1;
  std::vector<char*> row(buffers, buffers + row_strides_.size());
  std::vector<int64_t> position(outer);
  int64_t rest = begin;
  for (size_t d = outer; d-- > 0;) {
    position[d] = rest % loop.sizes[d];
    rest /= loop.sizes[d];
    for (size_t b = 0; b < row.size(); ++b) row[b] += position[d] * loop.strides[b][d];
  }
  for (int64_t r = begin; r < end; ++r) {
    kernel_(row.data(), loop.row(), row_strides_.data());
    for (size_t d = outer; d-- > 0;) {
      ++position[d];
      for (size_t b = 0; b < row.size(); ++b) row[b] += loop.strides[b][d];
      if (position[d] < loop.sizes[d]) break;
      for (size_t b = 0; b < row.size(); ++b) row[b] -= loop.strides[b][d] * loop.sizes[d];
      position[d] = 0;
    }
  }
}

std::vector<std::shared_ptr<const FusedStep>> fused_steps(const graph::Graph& graph,
                                                          std::span<const graph::ValueId> keep,
                                                          const std::vector<bool>& skip) {
  std::vector<std::shared_ptr<const FusedStep>> steps;
  for (codegen::FusedGroup& group : codegen::fuse(graph, keep, skip)) {
    std::string why_not;
    if (KernelFunction kernel = kernel_function(group.kernel, &why_not))
      steps.push_back(std::make_shared<const FusedStep>(graph, std::move(group), kernel));
  }
  return steps;
}

}  // namespace framejit::torchlib
