#include "runtime/torch/memory_overlap.h"

#include <algorithm>

namespace framejit::torchlib {
namespace {

bool has_two_in_one_place(const at::Tensor& tensor) {
  for (int64_t i = 0; i < tensor.dim(); ++i)
    if (tensor.strides()[i] == 0 && tensor.sizes()[i] > 1) return true;
  return false;
}

struct Range {
  int64_t begin, end;  // bytes of the storage

  explicit Range(const at::Tensor& tensor)
      : begin(tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize())),
        end(begin + tensor.numel() * static_cast<int64_t>(tensor.itemsize())) {}
};

bool share_a_part(const at::Tensor& a, const at::Tensor& b) {
  if (a.unsafeGetTensorImpl() == b.unsafeGetTensorImpl() || a.numel() == 0 || b.numel() == 0) return false;
  if (!a.has_storage() || !b.has_storage() || !a.storage().is_alias_of(b.storage())) return false;
  if (!a.is_non_overlapping_and_dense() || !b.is_non_overlapping_and_dense()) return false;  // not known: not refused
  const Range of_a(a), of_b(b);
  if (of_a.begin == of_b.begin && of_a.end == of_b.end) return a.strides() != b.strides();
  return of_a.begin < of_b.end && of_b.begin < of_a.end;
}

bool writes_over(const at::Tensor& written, const c10::IValue& argument) {
  return argument.isTensor() && argument.toTensor().defined() && share_a_part(written, argument.toTensor());
}

// In elements of the storage.
int64_t end_of(c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) {
  int64_t last = offset;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return offset;
    last += (sizes[i] - 1) * strides[i];
  }
  return last + 1;
}

}  // namespace

bool reaches_beyond(const torch::jit::Stack& stack, size_t base) {
  const at::Tensor& self = stack[base].toTensor();
  const auto sizes = stack[base + 1].toDimVector(), strides = stack[base + 2].toDimVector();
  if (sizes.size() != strides.size()) return false;  // an error of its own
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return false;
  const int64_t offset = stack[base + 3].isInt() ? stack[base + 3].toInt() : self.storage_offset();
  return offset < self.storage_offset() ||
         end_of(sizes, strides, offset) > end_of(self.sizes(), self.strides(), self.storage_offset());
}

bool writes_overlapping(const OpEntry& op, const torch::jit::Stack& stack, size_t base) {
  const auto first = stack.begin() + static_cast<std::ptrdiff_t>(base);
  return std::any_of(op.written_args.begin(), op.written_args.end(), [&](uint16_t arg) {
    const c10::IValue& value = stack[base + arg];
    if (value.isTensorList()) {
      const c10::List<at::Tensor> written = value.toTensorList();
      return std::any_of(written.begin(), written.end(),
                         [](const at::Tensor& one) { return has_two_in_one_place(one); });
    }
    if (!value.isTensor() || !value.toTensor().defined()) return false;
    const at::Tensor& one = value.toTensor();
    return has_two_in_one_place(one) || std::any_of(first, first + static_cast<std::ptrdiff_t>(op.args.size()),
                                                    [&](const c10::IValue& other) { return writes_over(one, other); });
  });
}

}  // namespace framejit::torchlib
