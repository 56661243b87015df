// Vectors of a fixed number of lanes in LLVM's terms: types, and the operations of expressions on them.
#pragma once

#include <llvm-c/Core.h>

#include <array>
#include <span>
#include <string>

#include "codegen/kernels/kernel.h"

namespace framejit::codegen {

class Vectors {
 public:
  Vectors(LLVMContextRef context, LLVMModuleRef module, LLVMBuilderRef builder, bool wide);

  unsigned lanes() const { return lanes_; }
  LLVMTypeRef scalar(graph::DType type) const;  // of a value: i1 for truth
  LLVMTypeRef memory(graph::DType type) const;  // of an element in memory
  LLVMTypeRef vector(LLVMTypeRef scalar) const { return LLVMVectorType(scalar, lanes_); }
  LLVMTypeRef i64() const { return i64_; }
  LLVMValueRef splat(LLVMValueRef scalar) const;
  LLVMValueRef integer(int64_t value) const { return LLVMConstInt(i64_, static_cast<uint64_t>(value), true); }
  LLVMValueRef iota() const;                                                    // 0, 1, 2, ... of i64
  LLVMValueRef number(double value, int64_t integer, graph::DType type) const;  // in all lanes

  // From an element as memory holds it to its value, and back. `value_type` is that of the value.
  LLVMValueRef from_memory(LLVMValueRef value, graph::DType dtype) const;
  LLVMValueRef to_memory(LLVMValueRef value, graph::DType dtype) const;
  LLVMValueRef convert(LLVMValueRef value, graph::DType from, graph::DType to) const;
  // `type` is that of the last operand. Null if there is none, with a reason.
  LLVMValueRef compute(graph::ExpressionOp op, graph::DType type, std::span<const LLVMValueRef> operands,
                       std::string* error) const;

  // Reductions: what each lane begins with, one more value for each lane, and all lanes as one value in each.
  LLVMValueRef start(graph::ExpressionOp op, graph::DType type) const;
  LLVMValueRef combine(graph::ExpressionOp op, graph::DType type, LLVMValueRef a, LLVMValueRef b) const;
  LLVMValueRef across(graph::ExpressionOp op, graph::DType type, LLVMValueRef value) const;

  LLVMValueRef intrinsic(const char* name, std::span<const LLVMTypeRef> overloads,
                         std::span<LLVMValueRef const> arguments) const;

 private:
  LLVMValueRef of_truths(graph::ExpressionOp op, std::span<const LLVMValueRef> v) const;
  LLVMValueRef of_integers(graph::ExpressionOp op, graph::DType type, std::span<const LLVMValueRef> v) const;
  LLVMValueRef of_floats(graph::ExpressionOp op, graph::DType type, std::span<const LLVMValueRef> v) const;
  LLVMValueRef compare_integers(graph::ExpressionOp op, bool is_signed, LLVMValueRef a, LLVMValueRef b) const;
  LLVMValueRef compare_floats(graph::ExpressionOp op, LLVMValueRef a, LLVMValueRef b) const;
  LLVMValueRef shift(graph::ExpressionOp op, graph::DType type, LLVMValueRef a, LLVMValueRef by) const;
  LLVMValueRef extreme(graph::ExpressionOp op, LLVMValueRef a, LLVMValueRef b) const;
  LLVMValueRef call(graph::ExpressionOp op, graph::DType type, std::span<const LLVMValueRef> v) const;
  LLVMValueRef part(LLVMValueRef value, unsigned first, unsigned count) const;
  LLVMValueRef joined(std::span<const LLVMValueRef> parts) const;
  LLVMValueRef same(LLVMValueRef like, uint64_t value) const;  // an integer in all lanes
  LLVMValueRef rounded_to_bf16(LLVMValueRef bits) const;

  LLVMModuleRef module_;
  LLVMBuilderRef builder_;
  bool wide_;
  unsigned lanes_;
  LLVMTypeRef i1_, i8_, i16_, i32_, i64_, f16_, f32_, f64_;
};

}  // namespace framejit::codegen
