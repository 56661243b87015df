#include "runtime/torch/distinct_inputs.h"

#include <algorithm>

#include "graph/alias.h"
#include "runtime/torch/convert.h"

namespace framejit::torchlib {

namespace {

// Where kernels write: addresses of all these devices are of one space.
bool has_kernels(graph::Device device) { return device.is_cpu() || device.is_cuda(); }

// From the first element to the last, in bytes.
template <class Sizes, class Strides>
size_t elements(const Sizes& sizes, const Strides& strides, size_t itemsize) {
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return 0;
    last += (sizes[d] - 1) * strides[d];
  }
  return (static_cast<size_t>(last) + 1) * itemsize;
}

}  // namespace

DistinctInputs::DistinctInputs(const graph::Graph& graph, std::span<const graph::ValueId> written,
                               const ConstantPool& constants, Extent extent)
    : extent_(extent) {
  const graph::AliasClasses aliases(graph);
  for (graph::ValueId input : graph.inputs()) {
    const graph::TensorMeta& meta = graph.meta(input);
    const bool is_written = std::any_of(written.begin(), written.end(),
                                        [&](graph::ValueId value) { return aliases.may_alias(value, input); });
    const bool has_memory = meta.layout == graph::Layout::kStrided && has_kernels(meta.device);
    const size_t itemsize = static_cast<size_t>(graph::itemsize(meta.dtype));
    const size_t bytes = has_memory ? elements(meta.sizes, meta.strides, itemsize) : 0;
    ranges_.push_back({nullptr, bytes, is_written, bytes == 0});
  }
  input_count_ = ranges_.size();
  for (const c10::IValue& constant : constants) {
    if (!constant.isTensor() || !constant.toTensor().defined()) continue;
    const at::Tensor& tensor = constant.toTensor();
    if (tensor.layout() != c10::kStrided || !has_kernels(to_device(tensor.device()))) continue;
    ranges_.push_back({nullptr, elements(tensor.sizes(), tensor.strides(), tensor.element_size()), false, false});
    place(ranges_.back(), tensor);
  }
}

bool DistinctInputs::place(Range& range, const at::Tensor& tensor) const {
  const c10::Storage& storage = tensor.storage();
  const bool whole = extent_ == Extent::kStorage;
  const auto* begin = static_cast<const char*>(whole ? storage.data() : tensor.const_data_ptr());
  const size_t bytes = whole ? storage.nbytes() : range.bytes;
  const bool as_before = begin == range.begin && bytes == range.bytes;
  range.begin = begin;
  range.bytes = bytes;
  return as_before;
}

bool DistinctInputs::hold(const std::function<const at::Tensor&(size_t)>& input) {
  bool as_before = true;
  for (size_t i = 0; i < input_count_; ++i) {
    if (!ranges_[i].empty) as_before &= place(ranges_[i], input(i));
  }
  if (!as_before) held_ = lie_apart(ranges_);
  return held_;
}

bool DistinctInputs::lie_apart(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  const char* end = nullptr;          // of all so far
  const char* written_end = nullptr;  // of the written ones so far
  for (const Range& range : ranges) {
    if (range.bytes == 0) continue;
    if (range.begin < (range.written ? end : written_end)) return false;
    const char* last = range.begin + range.bytes;
    end = std::max(end, last);
    if (range.written) written_end = std::max(written_end, last);
  }
  return true;
}

}  // namespace framejit::torchlib
