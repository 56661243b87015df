// A kernel: one loop over rows of numbers, as a list of steps in SSA form. No target and no tensor: graph nodes become
// kernels in kernels/lower.h, kernels/llvm makes machine code of them.
//
// One call of a kernel works on one row: a nest of `depth` loops over elements of each buffer, the innermost of which
// is a stretch. Buffers are inputs, then outputs. A reduction is over the row, and what depends on no element but on
// reductions and uniform buffers alone is uniform itself. Steps that lead to a reduction and beyond it are computed
// again in each pass over the row; on the CPU the values of functions are kept, if the row is short.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/dtype.h"
#include "graph/expression.h"

namespace framejit::codegen {

enum class Access : uint8_t {
  kContiguous,  // one element after the other
  kUniform,     // one element for the whole row
  kStretched,   // one element for each stretch of the row
  kStrided,     // a distance between elements that the call tells
};

struct Buffer {
  graph::DType dtype;
  Access access;
  bool output = false;
};

struct Step {
  enum class Kind : uint8_t {
    kLoad,      // of `buffer`; half types become f32
    kConstant,  // `number`, or `integer` if the type is no floating one
    kConvert,   // to `type`
    kRound,     // f32 to the nearest value of the half type `storage`
    kCompute,   // `op` on one to three operands
    kReduce,    // `op`, a reduction, over the row
    kStore,     // into `buffer`
  };
  Kind kind;
  graph::ExpressionOp op = graph::ExpressionOp::kConstant;
  // Of the value: kBool is a truth value; of numbers i8 to i64, u8, f32 and f64.
  graph::DType type = graph::DType::kUndefined;
  graph::DType storage = graph::DType::kUndefined;
  std::array<int16_t, 3> operands = {-1, -1, -1};  // earlier steps
  uint16_t buffer = 0;
  double number = 0;
  int64_t integer = 0;
};

struct Kernel {
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  size_t depth = 1;  // of a row

  size_t input_count() const;
};

// One row: the buffers' addresses, the sizes of its loops, outermost first, and of each buffer the distances in bytes
// along them.
using KernelFunction = void (*)(char* const* buffers, const int64_t* sizes, const int64_t* strides);

// One line for each step. Equal texts are equal kernels: the key of caches, on disk too.
std::string to_string(const Kernel& kernel);

// The type in which elements of `dtype` are held: f32 for half types, kUndefined for those that kernels do not know.
graph::DType value_type(graph::DType dtype);

// Whether kernels have `op` on numbers of `type`, the type of its operands.
bool has_operation(graph::ExpressionOp op, graph::DType type);

// How often a pass over the row runs before each step's value is known, and whether it is the same for the whole row.
struct StepFacts {
  uint16_t level = 0;
  bool uniform = false;
};
std::vector<StepFacts> facts_of(const Kernel& kernel);

// The steps that end the pass at `level`: its reductions, and stores whose values are known in it.
std::vector<size_t> ends_of_pass(const Kernel& kernel, std::span<const StepFacts> facts, uint16_t level);
// By step: whether a pass that ends so needs it. What is uniform is computed before, and so is what leads to steps that
// are `kept`, which may be empty.
std::vector<bool> needed_in_pass(const Kernel& kernel, std::span<const StepFacts> facts, std::span<const size_t> ends,
                                 const std::vector<bool>& kept = {});
// What kernels compute for all lanes of the processor, and partly in line, where LibTorch's loops call a function.
bool is_function(graph::ExpressionOp op);

}  // namespace framejit::codegen
