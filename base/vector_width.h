// What vectors loops written for several processors use here.
#pragma once

#include <cstdint>

namespace framejit {

enum class VectorWidth : uint8_t {
  kPlain,  // what every processor of the platform has
  kAvx2,   // with fused multiplication and addition
  kAvx512,
};

// The widest of this processor, or what it is limited to. Any thread.
VectorWidth vector_width();

// Lets a test run the loops of other processors: none wider than `most` until the end of the scope. One at a time.
class LimitedVectorWidth {
 public:
  explicit LimitedVectorWidth(VectorWidth most);
  ~LimitedVectorWidth();
  LimitedVectorWidth(const LimitedVectorWidth&) = delete;
  LimitedVectorWidth& operator=(const LimitedVectorWidth&) = delete;
};

}  // namespace framejit
