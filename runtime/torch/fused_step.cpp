#include "runtime/torch/fused_step.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <atomic>

#include "codegen/kernels/cuda/source.h"
#include "codegen/kernels/fuse.h"
#include "runtime/torch/convert.h"

namespace framejit::torchlib {

namespace {

// Elements that are worth a thread of their own, as in LibTorch's elementwise kernels.
constexpr int64_t kGrain = 32768;

// Kernels read and write memory: what a tensor says beside it is done before, or after.
bool is_plain(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet kLazy({c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor});
  return !tensor.key_set().has_any(kLazy);
}

at::Tensor plain(const at::Tensor& tensor) {
  return tensor._is_zerotensor() ? at::zeros_like(tensor) : tensor.resolve_neg();
}

}  // namespace

struct FusedStep::Buffers {
  c10::SmallVector<char*, 16> addresses;
  // Of each written tensor: where its new numbers lie until they are copied. Undefined where it is written itself.
  c10::SmallVector<at::Tensor, 4> aside;
};

FusedStep::FusedStep(const graph::Graph& graph, codegen::FusedGroup group, KernelFunction kernel)
    : group_(std::move(group)), kernel_(kernel) {
  add_results(graph);
}

FusedStep::FusedStep(const graph::Graph& graph, codegen::FusedGroup group, std::unique_ptr<const CudaKernel> kernel)
    : group_(std::move(group)), cuda_(std::move(kernel)) {
  add_results(graph);
}

void FusedStep::add_results(const graph::Graph& graph) {
  for (const std::vector<int64_t>& strides : group_.loop.strides)
    row_strides_.insert(row_strides_.end(), strides.end() - static_cast<ptrdiff_t>(group_.loop.depth), strides.end());
  for (graph::ValueId written : group_.written) {
    const auto at = std::find(group_.inputs.begin(), group_.inputs.end(), written);
    written_.push_back(static_cast<uint32_t>(at - group_.inputs.begin()));
  }
  for (graph::ValueId output : group_.outputs) {
    const graph::TensorMeta& meta = graph.meta(output);
    Result& result = results_.emplace_back();
    result.sizes.assign(meta.sizes.begin(), meta.sizes.end());
    result.strides.assign(meta.strides.begin(), meta.strides.end());
    result.dtype = from_dtype(meta.dtype);
    // A later pass over the row reads inputs again, and what is written is a result already.
    // On other devices another stream may still read what this thread has done with.
    if (codegen::has_reductions(group_.kernel) || !written_.empty() || cuda_) continue;
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
    if (!input.is_inference())
      input.unsafeGetTensorImpl()->set_version_counter(c10::VariableVersion(0));  // a new tensor
    return std::move(input);
  }
  if (!cuda_) return at::detail::empty_strided_cpu(result.sizes, result.strides, result.dtype);
  const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(cuda_->device));
  return at::empty_strided(result.sizes, result.strides, at::TensorOptions(result.dtype).device(device));
}

// A tensor that is written and not plain is read and written beside its memory.
void FusedStep::add_inputs(std::span<at::Tensor> tensors, Buffers& buffers) const {
  for (uint32_t i : written_) {
    at::Tensor& aside = buffers.aside.emplace_back();
    if (!is_plain(tensors[i])) {
      aside = plain(tensors[i]);
    } else {
      tensors[i].mutable_data_ptr();  // gives it memory of its own before anybody takes the address
    }
  }
  for (size_t i = 0; i < group_.inputs.size(); ++i) {
    const auto written = std::find(written_.begin(), written_.end(), i);
    const at::Tensor* from = written == written_.end() ? nullptr : &buffers.aside[written - written_.begin()];
    if (!from && !is_plain(tensors[i])) tensors[i] = plain(tensors[i]);
    if (!from || !from->defined()) from = &tensors[i];
    buffers.addresses.push_back(const_cast<char*>(static_cast<const char*>(from->const_data_ptr())));
  }
}

void FusedStep::run(std::span<at::Tensor> tensors, std::span<const bool> last_use) const {
  const size_t input_count = group_.inputs.size();
  Buffers buffers;
  add_inputs(tensors.first(input_count), buffers);
  for (size_t i = 0; i < results_.size(); ++i) {
    at::Tensor output = make_output(results_[i], tensors.first(input_count), last_use);
    buffers.addresses.push_back(static_cast<char*>(output.data_ptr()));
    tensors[input_count + i] = std::move(output);
  }
  for (uint32_t i : written_) {
    char* address = buffers.addresses[i];
    buffers.addresses.push_back(address);
  }
  run_kernel(buffers.addresses.data());
  for (size_t i = 0; i < written_.size(); ++i)
    if (buffers.aside[i].defined()) tensors[written_[i]].copy_(buffers.aside[i]);
}

void FusedStep::run_kernel(char* const* buffers) const {
  if (cuda_) return run_cuda_kernel(*cuda_, {buffers, group_.kernel.buffers.size()});
  const codegen::Loop& loop = group_.loop;
  if (loop.sizes.size() == 1 && !codegen::has_reductions(group_.kernel)) {
    at::parallel_for(0, loop.row(), kGrain, [&](int64_t begin, int64_t end) {
      std::vector<char*> from(buffers, buffers + row_strides_.size());
      for (size_t b = 0; b < from.size(); ++b) from[b] += begin * row_strides_[b];
      const int64_t count = end - begin;
      kernel_(from.data(), &count, row_strides_.data());
    });
    return;
  }
  const int64_t grain = std::max<int64_t>(1, kGrain / loop.row());
  at::parallel_for(0, loop.rows(), grain, [&](int64_t begin, int64_t end) { run_rows(buffers, begin, end); });
}

void FusedStep::run_rows(char* const* buffers, int64_t begin, int64_t end) const {
  const codegen::Loop& loop = group_.loop;
  const size_t outer = loop.outer();
  std::vector<char*> row(buffers, buffers + group_.kernel.buffers.size());
  std::vector<int64_t> position(outer);
  int64_t rest = begin;
  for (size_t d = outer; d-- > 0;) {
    position[d] = rest % loop.sizes[d];
    rest /= loop.sizes[d];
    for (size_t b = 0; b < row.size(); ++b) row[b] += position[d] * loop.strides[b][d];
  }
  for (int64_t r = begin; r < end; ++r) {
    kernel_(row.data(), loop.sizes.data() + outer, row_strides_.data());
    for (size_t d = outer; d-- > 0;) {
      ++position[d];
      for (size_t b = 0; b < row.size(); ++b) row[b] += loop.strides[b][d];
      if (position[d] < loop.sizes[d]) break;
      for (size_t b = 0; b < row.size(); ++b) row[b] -= loop.strides[b][d] * loop.sizes[d];
      position[d] = 0;
    }
  }
}

namespace {

std::atomic<GroupObserver> observer = nullptr;

// Null where its device has no kernels, or not this one.
std::shared_ptr<const FusedStep> make_step(const graph::Graph& graph, codegen::FusedGroup group) {
  std::string why_not;
  if (group.device.is_cuda()) {
    std::unique_ptr<const CudaKernel> kernel = cuda_kernel(group, &why_not);
    return kernel ? std::make_shared<const FusedStep>(graph, std::move(group), std::move(kernel)) : nullptr;
  }
  KernelFunction kernel = kernel_function(group.kernel, &why_not);
  return kernel ? std::make_shared<const FusedStep>(graph, std::move(group), kernel) : nullptr;
}

}  // namespace

void observe_groups(GroupObserver told) { observer = told; }

FusedSteps fused_steps(const graph::Graph& graph, std::span<const graph::ValueId> keep, const std::vector<bool>& skip,
                       bool may_write_inputs) {
  codegen::Fusion fusion = codegen::fuse(graph, keep, skip, may_write_inputs);
  FusedSteps fused;
  for (codegen::FusedGroup& group : fusion.groups) {
    if (GroupObserver tell = observer.load()) tell(group);
    if (std::shared_ptr<const FusedStep> step = make_step(graph, std::move(group))) fused.steps.push_back(step);
  }
  if (!fused.steps.empty()) fused.apart = std::move(fusion.apart);
  return fused;
}

}  // namespace framejit::torchlib
