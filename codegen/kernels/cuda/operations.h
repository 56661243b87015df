// Types and operations of kernels as CUDA text, in terms of the prelude.
#pragma once

#include <cstdint>
#include <string>

#include "codegen/kernels/kernel.h"

namespace framejit::codegen {

// How values of the type are declared.
const char* cuda_type(graph::DType type);
std::string cuda_number(double number, int64_t integer, graph::DType type);
std::string cuda_load(graph::DType dtype, const std::string& address);
std::string cuda_store(graph::DType dtype, const std::string& address, const std::string& value);
std::string cuda_convert(graph::DType to, const std::string& value);
std::string cuda_round(graph::DType storage, const std::string& value);

// With {0}, {1}, {2} in the place of the operands; null for what is no operation, a leaf or a reduction.
const char* cuda_form(graph::ExpressionOp op);

// What a reduction begins with.
std::string cuda_start(graph::ExpressionOp op, graph::DType type);

}  // namespace framejit::codegen
