// A bump allocator: memory that lives as long as its owner, freed at once. For trivially destructible data only.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

namespace framejit::graph {

class Arena {
 public:
  void* allocate(size_t bytes) {
    bytes = (bytes + 15) & ~size_t{15};
    if (bytes > left_) grow(bytes);
    void* result = next_;
    next_ += bytes;
    left_ -= bytes;
    return result;
  }
  template <class T>
  T* copy(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    T* memory = static_cast<T*>(allocate(values.size_bytes()));
    if (!values.empty()) std::memcpy(static_cast<void*>(memory), values.data(), values.size_bytes());
    return memory;
  }

 private:
  static constexpr size_t kChunk = 16 * 1024;
  void grow(size_t bytes) {
    size_t size = bytes > kChunk ? bytes : kChunk;
    chunks_.push_back(std::make_unique_for_overwrite<std::byte[]>(size));
    next_ = chunks_.back().get();
    left_ = size;
  }
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::byte* next_ = nullptr;
  size_t left_ = 0;
};

}  // namespace framejit::graph
