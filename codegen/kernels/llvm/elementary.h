// Functions of f32 that kernels compute in line, where a call of a vector function would cost more than the rest: exp,
// and through it sigmoid, silu, softmax and the like, tanh, and erf for gelu. All within 2 ulp of the true value over
// all of f32, which tests/python/test_native_operators.py asks of them.
#pragma once

#include <llvm-c/Core.h>

#include "codegen/kernels/llvm/vectors.h"

namespace framejit::codegen {

// Null for what is not computed in line.
LLVMValueRef elementary_f32(const Vectors& v, LLVMBuilderRef builder, graph::ExpressionOp op, LLVMValueRef x);

}  // namespace framejit::codegen
