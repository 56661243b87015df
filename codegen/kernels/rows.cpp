#include "codegen/kernels/rows.h"

#include "codegen/kernels/written_out.h"
#include "graph/expression.h"
#include "graph/op.h"

namespace framejit::codegen {

using graph::Graph;
using graph::Node;
using graph::Operand;
using graph::TensorMeta;
using graph::ValueId;

namespace {

// Those that an expression is reduced over, counted from either end; all where none are named.
Dims reduced_dims(const TensorMeta& meta, const Node& node) {
  Dims found;
  if (meta.dim() == 0 || meta.sizes.size() > found.size()) return found;
  std::vector<int64_t> dims;
  const std::vector<graph::SchemaArg>& args = graph::op_info(node.op).parsed.args;
  for (size_t i = 0; i < args.size() && i < node.operand_count; ++i) {
    if (args[i].name != "dim") continue;
    if (node.arg(i).is(Operand::Kind::kInt)) dims.push_back(node.arg(i).as_int());
    if (node.arg(i).is(Operand::Kind::kInts)) dims.assign(node.arg(i).as_ints().begin(), node.arg(i).as_ints().end());
  }
  if (dims.empty()) found.set();
  for (int64_t dim : dims) found.set(static_cast<size_t>(dim < 0 ? dim + meta.dim() : dim));
  return found;
}

}  // namespace

Dims without_ones(const TensorMeta& meta, Dims dims) {
  Dims kept;
  for (size_t d = 0; d < meta.sizes.size() && d < dims.size(); ++d) kept[d] = dims[d] && meta.sizes[d] != 1;
  return kept;
}

int64_t row_length(const TensorMeta& meta, Dims row) {
  int64_t length = 1;
  for (size_t d = 0; d < meta.sizes.size(); ++d)
    if (row[d]) length *= meta.sizes[d];
  return length;
}

bool is_of_rows(const TensorMeta& meta, Dims row) {
  if (row.none() || meta.sizes.size() > row.size() || !meta.is_contiguous()) return false;
  for (size_t d = meta.sizes.size(); d-- > 0;)
    if (meta.sizes[d] != 1) return row[d] && row_length(meta, row) > 0;
  return false;
}

Dims row_dims(const Graph& graph, const Node& node) {
  if (node.operand_count == 0 || !node.arg(0).is_value()) return {};
  const TensorMeta& meta = graph.meta(node.arg(0).as_value());
  if (const WrittenOut* found = written_out(graph, node))
    return found->row ? without_ones(meta, found->row(meta)) : Dims();
  const graph::Expression* expression = graph::expression_of(node.op);
  return expression && expression->reduces ? without_ones(meta, reduced_dims(meta, node)) : Dims();
}

bool drops_dims(const Graph& graph, ValueId value) {
  const graph::NodeId definition = graph.value(value).definition;
  if (!definition.valid()) return false;
  const Node& node = graph.node(definition);
  return row_dims(graph, node).any() && graph.meta(value).dim() < graph.meta(node.arg(0).as_value()).dim();
}

bool reduces_rows(const Graph& graph, const Node& node) {
  if (!node.arg(0).is_value()) return false;
  const TensorMeta& meta = graph.meta(node.arg(0).as_value());
  const Dims row = row_dims(graph, node);
  return is_of_rows(meta, row) && row_length(meta, row) <= kLongestRow;
}

bool is_row_of(const TensorMeta& meta, const TensorMeta& whole, Dims row) {
  if (meta.dim() != whole.dim() || row.none() || !meta.is_contiguous()) return false;
  for (size_t d = 0; d < meta.sizes.size(); ++d)
    if (meta.sizes[d] != (row[d] ? 1 : whole.sizes[d])) return false;
  return true;
}

TensorMeta with_dims(const TensorMeta& rows, const TensorMeta& whole, Dims row) {
  graph::DimVector sizes = whole.sizes;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (row[d]) sizes[d] = 1;
  return TensorMeta::fresh(sizes, rows.dtype, rows.device);
}

}  // namespace framejit::codegen
