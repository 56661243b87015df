// Whether tensors still hold what they held, as far as can be told without reading large ones.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace framejit::torchlib {

class FrozenInputs {
 public:
  // `by_content`: its numbers are compared, however large it is.
  void add(const at::Tensor& tensor, bool by_content);
  // Whether the i-th tensor that was added, or what is in its place now, holds the same.
  bool holds(size_t i, const at::Tensor& tensor) const;

 private:
  // What fused optimisers write changes without its version: of their parameters some are small.
  static constexpr size_t kMostBytesCompared = 16 * 1024;
  struct Seen {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // its address is not given to another one meanwhile
    const void* data;
    int64_t version;  // none: it has no count of writes
    std::vector<char> content;
  };
  static constexpr int64_t kNoVersion = -1;
  static int64_t version_of(const at::Tensor& tensor);

  std::vector<Seen> seen_;
};

}  // namespace framejit::torchlib
