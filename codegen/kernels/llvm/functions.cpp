#include "codegen/kernels/llvm/functions.h"

#include <fmt/format.h>

namespace framejit::codegen {

namespace {

struct Row {
  graph::ExpressionOp op;
  const char* name;
  const char* bound;  // of its error, as in Sleef's names
};

using Op = graph::ExpressionOp;
// The variants that ATen/cpu/vec calls.
constexpr Row kRows[] = {
    {Op::kExp, "exp", "_u10"},       {Op::kExp2, "exp2", "_u10"},   {Op::kExpm1, "expm1", "_u10"},
    {Op::kLog, "log", "_u10"},       {Op::kLog2, "log2", "_u10"},   {Op::kLog10, "log10", "_u10"},
    {Op::kLog1p, "log1p", "_u10"},   {Op::kSin, "sin", "_u35"},     {Op::kCos, "cos", "_u35"},
    {Op::kTan, "tan", "_u10"},       {Op::kAsin, "asin", "_u10"},   {Op::kAcos, "acos", "_u10"},
    {Op::kAtan, "atan", "_u10"},     {Op::kSinh, "sinh", "_u10"},   {Op::kCosh, "cosh", "_u10"},
    {Op::kTanh, "tanh", "_u10"},     {Op::kAsinh, "asinh", "_u10"}, {Op::kAcosh, "acosh", "_u10"},
    {Op::kAtanh, "atanh", "_u10"},   {Op::kErf, "erf", "_u10"},     {Op::kErfc, "erfc", "_u15"},
    {Op::kLGamma, "lgamma", "_u10"}, {Op::kPow, "pow", "_u10"},     {Op::kAtan2, "atan2", "_u10"},
    {Op::kHypot, "hypot", "_u05"},   {Op::kFMod, "fmod", "_"},
};

}  // namespace

VectorFunction vector_function(Op op, graph::DType type, bool wide) {
  for (const Row& row : kRows) {
    if (row.op != op) continue;
    const bool single = type == graph::DType::kF32;
    const unsigned lanes = (wide ? 16U : 8U) / (single ? 1U : 2U);
    return {fmt::format("Sleef_{}{}{}{}{}", row.name, single ? "f" : "d", lanes, row.bound, wide ? "avx512f" : "avx2"),
            lanes};
  }
  return {};
}

}  // namespace framejit::codegen
