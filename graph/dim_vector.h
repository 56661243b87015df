// A vector of int64_t that keeps up to eight elements in place: sizes, strides, permutations. Trivial to copy in the
// usual case, no heap for rank <= 8.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <utility>

namespace framejit::graph {

class DimVector {
 public:
  static constexpr uint32_t kInline = 8;

  DimVector() = default;
  DimVector(std::initializer_list<int64_t> values) { assign({values.begin(), values.size()}); }
  explicit DimVector(std::span<const int64_t> values) { assign(values); }
  DimVector(size_t count, int64_t value) {
    resize(count);
    std::fill_n(data(), count, value);
  }
  DimVector(const DimVector& other) { assign(other); }
  DimVector(DimVector&& other) noexcept { take(other); }
  DimVector& operator=(const DimVector& other) {
    if (this != &other) assign(other);
    return *this;
  }
  DimVector& operator=(DimVector&& other) noexcept {
    if (this != &other) {
      release();
      take(other);
    }
    return *this;
  }
  ~DimVector() { release(); }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t* data() { return capacity_ == kInline ? inline_ : heap_; }
  const int64_t* data() const { return capacity_ == kInline ? inline_ : heap_; }
  int64_t& operator[](size_t i) { return data()[i]; }
  int64_t operator[](size_t i) const { return data()[i]; }
  int64_t& back() { return data()[size_ - 1]; }
  int64_t back() const { return data()[size_ - 1]; }
  int64_t* begin() { return data(); }
  int64_t* end() { return data() + size_; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size_; }
  operator std::span<const int64_t>() const { return {data(), size_}; }

  void clear() { size_ = 0; }
  void reserve(size_t count);
  // New elements are not set.
  void resize(size_t count) {
    if (count > capacity_) reserve(count);
    size_ = static_cast<uint32_t>(count);
  }
  void push_back(int64_t value) {
    if (size_ == capacity_) reserve(size_t{capacity_} * 2);
    data()[size_++] = value;
  }
  void insert(size_t at, int64_t value) {
    push_back(0);
    std::memmove(data() + at + 1, data() + at, (size_ - 1 - at) * sizeof(int64_t));
    data()[at] = value;
  }
  void erase(size_t at) {
    std::memmove(data() + at, data() + at + 1, (size_ - 1 - at) * sizeof(int64_t));
    --size_;
  }
  void assign(std::span<const int64_t> values) {
    resize(values.size());
    if (!values.empty()) std::memcpy(data(), values.data(), values.size() * sizeof(int64_t));
  }

  friend bool operator==(const DimVector& a, const DimVector& b) {
    return a.size_ == b.size_ && std::equal(a.begin(), a.end(), b.begin());
  }
  friend bool operator!=(const DimVector& a, const DimVector& b) { return !(a == b); }

 private:
  void take(DimVector& other) noexcept {
    size_ = other.size_;
    capacity_ = other.capacity_;
    if (capacity_ == kInline) {
      std::memcpy(inline_, other.inline_, size_ * sizeof(int64_t));
    } else {
      heap_ = other.heap_;
      other.capacity_ = kInline;
    }
    other.size_ = 0;
  }
  void release() {
    if (capacity_ != kInline) delete[] heap_;
    capacity_ = kInline;
  }

  uint32_t size_ = 0;
  uint32_t capacity_ = kInline;
  union {
    int64_t inline_[kInline];
    int64_t* heap_;
  };
};

}  // namespace framejit::graph
