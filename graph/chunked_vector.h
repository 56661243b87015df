// Append-only sequence whose elements never move, so that references stay valid while it grows.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace framejit::graph {

template <class T, size_t kChunk = 64>
class ChunkedVector {
 public:
  ChunkedVector() = default;
  ChunkedVector(ChunkedVector&&) noexcept = default;
  ChunkedVector& operator=(ChunkedVector&&) noexcept = default;

  T& push_back(T value) {
    if (size_ == chunks_.size() * kChunk) chunks_.push_back(std::make_unique<T[]>(kChunk));
    T& slot = (*this)[size_++];
    slot = std::move(value);
    return slot;
  }
  size_t size() const { return size_; }
  // Drops elements from `count` on; their chunks stay for later ones.
  void shrink(size_t count) {
    if (count < size_) size_ = count;
  }
  T& operator[](size_t i) { return chunks_[i / kChunk][i % kChunk]; }
  const T& operator[](size_t i) const { return chunks_[i / kChunk][i % kChunk]; }

 private:
  std::vector<std::unique_ptr<T[]>> chunks_;
  size_t size_ = 0;
};

}  // namespace framejit::graph
