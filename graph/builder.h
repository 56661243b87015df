// Builds graphs by hand: each call infers what its operator returns and adds the node. The typed functions, one for
// each operator of graph/ops/*.yaml, are ops::add, ops::mm, ... in graph/generated/builders.h.
//
//   Graph graph("f");
//   Builder builder(graph);
//   ValueId x = builder.input({2, 3}, DType::kF32);
//   Result<ValueId, BuildError> y = ops::add(builder, x, 1.0);
//
// A result that an operator left undefined (a mask of a backward operator) is a value without a type. An operator
// without an inference rule is refused: give its results to Graph::add_node.
#pragma once

#include <array>
#include <complex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace framejit::graph {

// Why a node was not added: the call, what was expected, what it got.
struct BuildError {
  std::string message;
};

// A number. Operands made from it point into it where it is complex.
class Scalar {
 public:
  Scalar(bool v) : kind_(Operand::Kind::kBool), integer_(v) {}
  Scalar(int v) : kind_(Operand::Kind::kInt), integer_(v) {}
  Scalar(int64_t v) : kind_(Operand::Kind::kInt), integer_(v) {}
  Scalar(double v) : kind_(Operand::Kind::kFloat), parts_{v, 0} {}
  Scalar(std::complex<double> v) : kind_(Operand::Kind::kComplex), parts_{v.real(), v.imag()} {}

  Operand operand() const;

 private:
  Operand::Kind kind_;
  int64_t integer_ = 0;
  double parts_[2] = {0, 0};
};

// A value, or a number that LibTorch would wrap in a 0-D tensor.
class TensorArg {
 public:
  TensorArg(ValueId v) : value_(v), number_(0), is_number_(false) {}
  TensorArg(bool v) : number_(v) {}
  TensorArg(int v) : number_(v) {}
  TensorArg(int64_t v) : number_(v) {}
  TensorArg(double v) : number_(v) {}
  TensorArg(std::complex<double> v) : number_(v) {}

  Operand operand() const { return is_number_ ? number_.operand() : Operand::value(value_); }

 private:
  ValueId value_;
  Scalar number_;
  bool is_number_ = true;
};

// A list of sizes, strides or dimensions, of which it keeps a copy.
class Ints {
 public:
  Ints() = default;
  Ints(std::initializer_list<int64_t> values) : values_(values) {}
  Ints(std::span<const int64_t> values) : values_(values) {}
  Ints(const std::vector<int64_t>& values) : values_(std::span<const int64_t>(values)) {}
  Operand operand() const { return Operand::ints(values_); }

 private:
  DimVector values_;
};

// A list of tensors, of which it keeps a copy; an invalid id is an element that is None.
class Values {
 public:
  Values(std::initializer_list<ValueId> values) : values_(values) {}
  Values(std::span<const ValueId> values) : values_(values.begin(), values.end()) {}
  Values(std::vector<ValueId> values) : values_(std::move(values)) {}
  Operand operand() const { return Operand::values(values_); }

 private:
  std::vector<ValueId> values_;
};

// Out of line: the generated functions are many.
Operand operand_of(const TensorArg& v);
Operand operand_of(const std::optional<TensorArg>& v);
Operand operand_of(const Scalar& v);
Operand operand_of(const std::optional<Scalar>& v);
Operand operand_of(const Ints& v);
Operand operand_of(const std::optional<Ints>& v);
Operand operand_of(const Values& v);
inline Operand operand_of(int64_t v) { return Operand::integer(v); }
inline Operand operand_of(double v) { return Operand::real(v); }
inline Operand operand_of(bool v) { return Operand::boolean(v); }
inline Operand operand_of(std::string_view v) { return Operand::string(v); }
inline Operand operand_of(DType v) { return Operand::dtype(v); }
inline Operand operand_of(Layout v) { return Operand::layout(v); }
inline Operand operand_of(Device v) { return Operand::device(v); }
inline Operand operand_of(MemoryFormat v) { return Operand::memory_format(v); }
inline Operand operand_of(ConstId v) { return Operand::constant(v); }
template <size_t N>
Operand operand_of(const std::array<bool, N>& v) {
  return Operand::bools(v);
}
template <class T>
Operand operand_of(const std::optional<T>& v) {
  return v ? operand_of(*v) : Operand::none();
}

class Builder {
 public:
  explicit Builder(Graph& graph, const InferEnvironment& environment = {}) : graph_(graph), environment_(environment) {}

  Graph& graph() { return graph_; }
  // The line of the user's program that nodes get from now on.
  void set_location(LocationId location) { location_ = location; }

  ValueId input(const TensorMeta& meta) { return graph_.add_input(meta); }
  ValueId input(const Ints& sizes, DType dtype, Device device = {});

  // Operands in schema order, all of them. Nothing is added on an error.
  Result<NodeId, BuildError> add(OpId op, std::span<const Operand> operands);
  // For an operator that returns one result, N results, a list.
  Result<ValueId, BuildError> one(OpId op, std::span<const Operand> operands);
  template <size_t N>
  Result<std::array<ValueId, N>, BuildError> some(OpId op, std::span<const Operand> operands) {
    Result<NodeId, BuildError> node = add(op, operands);
    if (!node) return Err{node.take_error()};
    std::array<ValueId, N> results;
    for (size_t i = 0; i < N; ++i) results[i] = graph_.node(*node).result(i);
    return results;
  }
  Result<std::vector<ValueId>, BuildError> list(OpId op, std::span<const Operand> operands);

 private:
  std::optional<std::string> refusal(const OpInfo& info, std::span<const Operand> operands) const;
  std::string types_of(std::span<const Operand> operands) const;

  Graph& graph_;
  InferEnvironment environment_;
  InferOutput results_;
  LocationId location_;
};

}  // namespace framejit::graph
