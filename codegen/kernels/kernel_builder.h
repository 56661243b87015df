// Steps of a kernel, made one by one: equal steps once, constants folded.
#pragma once

#include <array>
#include <optional>

#include "codegen/kernels/kernel.h"

namespace framejit::codegen {

class KernelBuilder {
 public:
  using Operands = std::array<int16_t, 3>;

  // Each returns the step of the value.
  int16_t load(uint16_t buffer);
  int16_t number(double value, graph::DType type);  // of any type
  int16_t truth(bool value);
  int16_t convert(int16_t value, graph::DType type);
  // As memory of this type would hold it.
  int16_t rounded(int16_t value, graph::DType storage);
  int16_t compute(graph::ExpressionOp op, Operands operands);
  int16_t reduce(graph::ExpressionOp op, int16_t value);
  void store(uint16_t buffer, int16_t value);

  std::optional<bool> known_truth(int16_t value) const;
  graph::DType type_of(int16_t value) const { return step(value).type; }
  // Whether a value could not be made: from then on steps mean nothing.
  bool failed() const { return failed_; }
  void fail() { failed_ = true; }

  Kernel& kernel() { return kernel_; }
  // The kernel, without the steps that no store needs.
  Kernel take();

 private:
  const Step& step(int16_t value) const { return kernel_.steps[static_cast<size_t>(value)]; }
  bool is_constant(int16_t value) const { return step(value).kind == Step::Kind::kConstant; }
  std::optional<double> known_number(int16_t value) const;
  int16_t add(const Step& step);
  std::optional<int16_t> folded(graph::ExpressionOp op, const Operands& operands, graph::DType result);
  std::optional<int16_t> simplified(graph::ExpressionOp op, const Operands& operands);
  std::optional<int16_t> power(int16_t base, double exponent);

  Kernel kernel_;
  bool failed_ = false;
};

}  // namespace framejit::codegen
