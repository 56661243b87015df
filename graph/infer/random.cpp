#include "graph/infer/random.h"

#include "graph/dtype.h"
#include "graph/infer/creation.h"
#include "graph/infer/scalar.h"

namespace framejit::graph::infer {
namespace {

// Comparisons are written so that nan is refused, as LibTorch's are.
InferStatus drawn(InferContext& c, bool type, bool parameters) {
  if (!type || !parameters) return InferStatus::kError;
  c.add_same(0);
  return InferStatus::kOk;
}

bool is_probability(double p) { return p >= 0 && p <= 1; }

}  // namespace

// self, mean, std
InferStatus normal_inplace(InferContext& c) {
  const DType type = c.self().dtype;
  return drawn(c, is_floating(type) || is_complex(type), c.real(2) >= 0);
}

InferStatus log_normal_inplace(InferContext& c) { return drawn(c, is_floating(c.self().dtype), c.real(2) > 0); }

// self, median, sigma
InferStatus cauchy_inplace(InferContext& c) { return drawn(c, is_floating(c.self().dtype), c.real(2) > 0); }

// self, from, to
InferStatus uniform_inplace(InferContext& c) {
  const DType type = to_real(c.self().dtype);
  const double from = c.real(1), to = c.real(2);
  const Range range = range_of(type);
  return drawn(c, is_floating(type),
               from >= range.lowest && from <= to && to <= range.highest && to - from <= range.highest);
}

// self, lambd
InferStatus exponential_inplace(InferContext& c) { return drawn(c, is_floating(c.self().dtype), c.real(1) > 0); }

// self, p
InferStatus geometric_inplace(InferContext& c) {
  const DType type = c.self().dtype;
  return drawn(c, is_floating(type) || is_integral(type, false), c.real(1) > 0 && c.real(1) < 1);
}

InferStatus bernoulli_inplace(InferContext& c) {
  return drawn(c, !is_complex(c.self().dtype), is_probability(c.real(1)));
}

InferStatus bernoulli_p(InferContext& c) {
  return is_probability(c.real(1)) ? same_contiguous(c) : InferStatus::kError;
}

// self, from, to
InferStatus random_from_inplace(InferContext& c) { return drawn(c, true, !c.has(2) || c.integer(1) < c.integer(2)); }

// self, to
InferStatus random_to_inplace(InferContext& c) { return drawn(c, true, c.integer(1) > 0); }

}  // namespace framejit::graph::infer
