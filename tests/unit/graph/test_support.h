// Small helpers for tests of the graph room.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/parse.h"
#include "graph/print.h"

namespace framejit::graph {

inline Graph parsed(std::string_view text) {
  auto result = parse_graph(text);
  if (!result) throw std::runtime_error(result.error().to_string());
  return std::move(result).value();
}

inline TensorMeta tensor(std::initializer_list<int64_t> sizes, DType dtype = DType::kF32) {
  return TensorMeta::fresh({sizes.begin(), sizes.size()}, dtype, Device{});
}

inline TensorMeta strided(std::initializer_list<int64_t> sizes, std::initializer_list<int64_t> strides,
                          DType dtype = DType::kF32) {
  TensorMeta meta = tensor(sizes, dtype);
  meta.strides = DimVector(strides);
  return meta;
}

// Infers one call over tensors held here. `metas[i]` is Operand::value(ValueId(i)).
class Inference {
 public:
  explicit Inference(std::vector<TensorMeta> metas) : metas_(std::move(metas)) {}

  InferStatus run(std::string_view op, std::vector<Operand> operands, const InferEnvironment& environment = {}) {
    MetaLookup lookup(this, [](const void* self, ValueId id) -> const TensorMeta& {
      return static_cast<const Inference*>(self)->metas_[id.index()];
    });
    return infer_meta(find_op(op), operands, lookup, out, environment);
  }
  // The types of all results, or the status when it is not kOk.
  std::string text(std::string_view op, std::vector<Operand> operands, const InferEnvironment& environment = {}) {
    InferStatus status = run(op, std::move(operands), environment);
    if (status == InferStatus::kNoRule) return "no rule";
    if (status == InferStatus::kError) return "error";
    std::string text;
    for (const ResultMeta& result : out) text += (text.empty() ? "" : "; ") + to_string(result.meta);
    return text;
  }

  InferOutput out;

 private:
  std::vector<TensorMeta> metas_;
};

inline Operand val(int i) { return Operand::value(ValueId(i)); }

}  // namespace framejit::graph
