#include "runtime/torch/frozen_inputs.h"

#include <cstring>

namespace framejit::torchlib {

int64_t FrozenInputs::version_of(const at::Tensor& tensor) {
  const c10::VariableVersion& version = tensor.unsafeGetTensorImpl()->version_counter();
  return version.enabled() ? int64_t{version.current_version()} : kNoVersion;
}

void FrozenInputs::add(const at::Tensor& tensor, bool by_content) {
  Seen seen{tensor.storage().getWeakStorageImpl(), tensor.const_data_ptr(), version_of(tensor), {}};
  by_content |= tensor.nbytes() <= kMostBytesCompared;
  if (by_content && tensor.is_cpu() && tensor.is_non_overlapping_and_dense() && tensor.numel() > 0) {
    const char* data = static_cast<const char*>(tensor.const_data_ptr());
    seen.content.assign(data, data + tensor.nbytes());
  }
  seen_.push_back(std::move(seen));
}

bool FrozenInputs::holds(size_t i, const at::Tensor& tensor) const {
  const Seen& seen = seen_[i];
  if (tensor.storage().unsafeGetStorageImpl() != seen.storage._unsafe_get_target() ||
      tensor.const_data_ptr() != seen.data)
    return false;
  if (!seen.content.empty()) return std::memcmp(seen.data, seen.content.data(), seen.content.size()) == 0;
  return seen.version != kNoVersion && version_of(tensor) == seen.version;
}

}  // namespace framejit::torchlib
