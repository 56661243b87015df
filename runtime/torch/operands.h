// Between the values on LibTorch's operator stack and graph operands.
#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <vector>

#include "graph/graph.h"
#include "graph/operand.h"
#include "runtime/torch/op_entry.h"

namespace framejit::torchlib {

// Memory behind the operands of one node while it is being built. reset() keeps the memory.
class Scratch {
 public:
  template <class T>
  T* allocate(size_t count) {
    size_t bytes = (count * sizeof(T) + 15) & ~size_t{15};
    if (used_ + bytes > size_) grow(bytes);
    T* result = reinterpret_cast<T*>(memory_ + used_);
    used_ += bytes;
    return result;
  }
  void reset() {
    used_ = 0;
    if (chunks_.size() > 1) drop_small_chunks();
  }

 private:
  void grow(size_t bytes);
  void drop_small_chunks();
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::byte* memory_ = nullptr;
  size_t size_ = 0;
  size_t used_ = 0;
};

// Objects that a graph names by ConstId: tensors made during capture, generators.
using ConstantPool = std::vector<c10::IValue>;

// Anything but tensors and lists of tensors. False if there is no operand for such a value.
bool to_operand(const c10::IValue& value, ArgKind kind, Scratch& scratch, ConstantPool& constants, graph::Operand* out);
// A 0-D CPU tensor that stands for a Python number becomes that number. False if it is none.
bool number_of(const at::Tensor& tensor, Scratch& scratch, graph::Operand* out);

// Anything but graph values. In the place of a tensor, a number becomes a 0-D tensor again.
c10::IValue from_operand(const graph::Operand& operand, ArgKind kind, const ConstantPool& constants);
// The type to which an elementwise node converts the numbers among its operands at each call, where that is the
// floating type of all its tensors, on the CPU; else kUndefined.
graph::DType type_of_numbers(const graph::Graph& graph, const graph::Node& node);
// What LibTorch makes of a Python number in the place of a tensor.
c10::IValue number_tensor(const c10::Scalar& value);
// A number in the place of a tensor, converted already.
c10::IValue number_in(const graph::Operand& number, graph::DType type);

}  // namespace framejit::torchlib
