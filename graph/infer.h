// InferMeta: what LibTorch would return, without running it. Rules are exact or absent: a rule that is not sure answers
// kNoRule and the caller asks LibTorch's Meta kernel, one that sees bad arguments answers kError and the caller lets
// LibTorch raise the true error.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/operand.h"

namespace framejit::graph {

enum class InferStatus : uint8_t { kOk, kNoRule, kError };

enum class AliasKind : uint8_t {
  kFresh,  // own storage
  kView,   // shares the storage of an operand
  kSame,   // is the operand itself (an in-place operator's return)
};

enum class ResultKind : uint8_t { kTensor, kInt, kFloat, kBool };

// One result. Results of an operator that returns a list of tensors stand one after another, as do those of a tuple.
struct ResultMeta {
  TensorMeta meta;  // kTensor: undefined() for a result that LibTorch leaves undefined
  ResultKind kind = ResultKind::kTensor;
  AliasKind alias = AliasKind::kFresh;
  int16_t alias_operand = -1;  // which operand, for kView and kSame
  int16_t alias_element = -1;  // which element of it, when the operand is a list
};

// Scratch for results. Keep one and pass it to each call: clear() keeps the memory.
class InferOutput {
 public:
  void clear() { count_ = 0; }
  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  ResultMeta& operator[](size_t i) { return results_[i]; }
  const ResultMeta& operator[](size_t i) const { return results_[i]; }
  ResultMeta* begin() { return results_.data(); }
  ResultMeta* end() { return results_.data() + count_; }
  const ResultMeta* begin() const { return results_.data(); }
  const ResultMeta* end() const { return results_.data() + count_; }
  operator std::span<const ResultMeta>() const { return {results_.data(), count_}; }
  // A new result, reset to a fresh undefined tensor. Invalidates references to earlier ones.
  ResultMeta& add() {
    if (count_ == results_.size()) results_.emplace_back();
    results_[count_] = ResultMeta{};
    return results_[count_++];
  }

 private:
  std::vector<ResultMeta> results_;
  size_t count_ = 0;
};

// How a rule reads the meta of a value: a function and its context, so that the recorder, the graph and tests can each
// keep metas where they like. The reference must stay valid until infer_meta returns.
class MetaLookup {
 public:
  using Function = const TensorMeta& (*)(const void* context, ValueId value);
  MetaLookup(const void* context, Function function) : context_(context), function_(function) {}
  MetaLookup(const class Graph& graph);
  const TensorMeta& operator()(ValueId value) const { return function_(context_, value); }

 private:
  const void* context_;
  Function function_;
};

// Facts of the process that some results depend on; the caller keeps them up to date (they are guarded by it).
struct InferEnvironment {
  DType default_dtype = DType::kF32;
  Device default_device;
  bool deterministic = false;
  bool mkl = false;                   // LibTorch transforms with oneMKL
  bool attention_like_query = false;  // attention's output on the CPU is laid out as its query; else by heads
};

// Fills `out` (cleared first) with the metas of all results. requires_grad is always false in them: below autograd.
InferStatus infer_meta(OpId op, std::span<const Operand> operands, const MetaLookup& metas, InferOutput& out,
                       const InferEnvironment& environment = {});
bool has_infer_rule(OpId op);

}  // namespace framejit::graph
