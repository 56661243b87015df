// Operators. An OpId is an interned name ("aten::add.Tensor"), the same for the whole process. Operators of
// graph/ops/*.yaml have fixed ids (generated/op_ids.h); any other operator that the recorder meets is interned with its
// schema and gets what the schema says (mutation, aliasing), but no native inference.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ids.h"

namespace framejit::graph {

// What passes need to know. Mutation and aliasing come from the schema, the rest from YAML or from LibTorch's tags.
enum OpFlag : uint32_t {
  kOpView = 1u << 0,           // a result shares storage with an argument and is not written
  kOpInPlace = 1u << 1,        // the first argument is written and returned
  kOpMutates = 1u << 2,        // some argument is written (in-place and out= included)
  kOpRandom = 1u << 3,         // draws from a generator
  kOpDataDependent = 1u << 4,  // a result's shape or value leaves the graph
  kOpSideEffect = 1u << 5,     // must run even if no result is used (assertions, printing)
  kOpPointwise = 1u << 6,
  kOpReduction = 1u << 7,
  kOpNative = 1u << 8,             // has an inference rule
  kOpMaybeView = 1u << 9,          // may return its argument or a view of it (reshape, contiguous, _to_copy never)
  kOpMetaInPlace = 1u << 10,       // in place on sizes and strides, not on data (squeeze_, t_, as_strided_)
  kOpMayRaise = 1u << 11,          // its kernel looks at data and may raise (an index out of range)
  kOpUninitialized = 1u << 12,     // a result holds whatever its memory held
  kOpRaisesOnIntegers = 1u << 13,  // kOpMayRaise if it computes in integers (a division by zero)
  kOpWritesStatistics =
      1u << 14,  // writes its running_mean and running_var in training, and its schema does not say so
  // Of devices, see infer/placement.h.
  kOpCpuRule = 1u << 15,     // its rule holds on the CPU only: kernels of other devices answer in ways of their own
  kOpCpuScalar = 1u << 16,   // one tensor of rank 0 may be on the CPU while the others are on another device
  kOpCpuIndices = 1u << 17,  // the list of indices in place 1 may be on the CPU
  kOpAnyDevices = 1u << 18,  // copies between devices
};

struct SchemaArg {
  std::string name;
  std::string type;  // as in the schema: "Tensor", "Tensor?", "int[]", "ScalarType?", "Generator?", ...
  std::optional<std::string> default_text;
  char alias_set = 0;  // 'a' in Tensor(a!); '*' for the wildcard; 0: none
  bool written = false;
  bool keyword_only = false;

  bool is_tensor() const { return type == "Tensor" || type == "Tensor?"; }
  bool is_tensor_list() const { return type.rfind("Tensor[", 0) == 0 || type.rfind("Tensor?[", 0) == 0; }
};

struct OpSchema {
  std::vector<SchemaArg> args;
  std::vector<SchemaArg> returns;
};

struct OpInfo {
  OpId id;
  std::string name;    // "aten::add.Tensor"
  std::string schema;  // "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
  OpSchema parsed;
  uint32_t flags = 0;

  bool has(OpFlag flag) const { return (flags & flag) != 0; }
  bool writes_arg(size_t index) const { return index < parsed.args.size() && parsed.args[index].written; }
  // The argument whose alias set result `index` shares, or -1.
  int aliased_arg(size_t index) const;
};

// Interns. `schema` and `flags` are used the first time that an operator without a YAML entry is seen; the schema may
// be empty (then the operator counts as mutating nothing, with a side effect, never erased). Thread-safe.
OpId intern_op(std::string_view name, std::string_view schema = {}, uint32_t flags = 0);
// The id if the name is known, else an invalid id.
OpId find_op(std::string_view name);
// Stays valid for the life of the process. Thread-safe.
const OpInfo& op_info(OpId op);
std::string_view op_name(OpId op);
size_t op_count();
// How many operators have an inference rule.
size_t native_op_count();

// Parses a schema as LibTorch prints it; nullopt when malformed.
std::optional<OpSchema> parse_schema(std::string_view text);

}  // namespace framejit::graph
