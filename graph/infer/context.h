// What an inference rule works with. Rules read operands through it and add results to it.
//
// An operand of a kind that a rule did not expect (a symbolic size where an int should be, a sparse tensor) makes the
// context "unsure": the accessor gives some harmless value, and infer_meta answers kNoRule whatever the rule returns.
#pragma once

#include <optional>

#include "graph/infer.h"

namespace framejit::graph {

class InferContext {
 public:
  InferContext(std::span<const Operand> operands, const MetaLookup& metas, InferOutput& out,
               const InferEnvironment& environment)
      : operands_(operands), metas_(metas), out_(out), environment_(environment) {}

  size_t size() const { return operands_.size(); }
  const Operand& operand(size_t i) const { return operands_[i]; }
  bool has(size_t i) const { return i < operands_.size() && !operands_[i].is_none(); }
  const InferEnvironment& environment() const { return environment_; }

  // The tensor in place i; a scalar there is a wrapped number. Null for None and for an undefined tensor.
  const TensorMeta* tensor(size_t i) { return i < operands_.size() ? tensor_of(operands_[i]) : nullptr; }
  const TensorMeta* tensor_of(const Operand& operand);
  // As tensor(i), where the operator needs one: a wrapped number or None makes the context unsure.
  const TensorMeta& self(size_t i = 0);
  // Elements of a tensor list; none elements are null.
  size_t list_size(size_t i);
  const TensorMeta* list_tensor(size_t i, size_t element);

  int64_t integer(size_t i);
  int64_t integer_or(size_t i, int64_t otherwise) { return has(i) ? integer(i) : otherwise; }
  bool boolean(size_t i);
  double real(size_t i);
  std::span<const int64_t> ints(size_t i);
  std::optional<DType> dtype(size_t i);  // nullopt for None
  std::optional<Device> device(size_t i);
  std::optional<MemoryFormat> memory_format(size_t i);
  // False when a layout other than strided is asked for.
  bool strided_layout(size_t i);

  // Results.
  TensorMeta& add_fresh(std::span<const int64_t> sizes, DType dtype, Device device,
                        MemoryFormat format = MemoryFormat::kContiguous);
  TensorMeta& add_fresh(TensorMeta meta);
  // A view of operand i: its storage, dtype, device and offset, with these sizes and strides.
  TensorMeta& add_view(size_t i, const DimVector& sizes, const DimVector& strides, int64_t offset);
  // Operand i itself, with its own meta.
  TensorMeta& add_same(size_t i);
  ResultMeta& last_result() { return out_[out_.size() - 1]; }
  void add_undefined() { out_.add(); }

  InferStatus unsure() {
    unsure_ = true;
    return InferStatus::kNoRule;
  }
  bool is_unsure() const { return unsure_; }

 private:
  std::span<const Operand> operands_;
  const MetaLookup& metas_;
  InferOutput& out_;
  const InferEnvironment& environment_;
  bool unsure_ = false;
};

// Wraps a negative dimension; -1 (never valid) when out of range. A 0-D tensor counts as 1-D, as in LibTorch.
inline int64_t wrap_dim(int64_t dim, int64_t rank) {
  int64_t limit = rank == 0 ? 1 : rank;
  if (dim < -limit || dim >= limit) return -1;
  return dim < 0 ? dim + limit : dim;
}

}  // namespace framejit::graph
