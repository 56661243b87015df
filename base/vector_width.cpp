#include "base/vector_width.h"

#include <algorithm>
#include <atomic>

namespace framejit {
namespace {

VectorWidth widest() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return VectorWidth::kPlain;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx512 ? VectorWidth::kAvx512 : VectorWidth::kAvx2;
#else
  return VectorWidth::kPlain;
#endif
}

std::atomic<VectorWidth> width = widest();

}  // namespace

VectorWidth vector_width() { return width.load(std::memory_order_relaxed); }

LimitedVectorWidth::LimitedVectorWidth(VectorWidth most) { width = std::min(most, widest()); }
LimitedVectorWidth::~LimitedVectorWidth() { width = widest(); }

}  // namespace framejit
