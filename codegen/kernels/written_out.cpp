#include "codegen/kernels/written_out.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "codegen/kernels/rows.h"
#include "graph/generated/op_ids.h"

namespace framejit::codegen {

using graph::DType;
using graph::Graph;
using graph::Node;
using graph::Operand;
using graph::TensorMeta;
using graph::ValueId;
using Op = graph::ExpressionOp;

namespace {

bool is_single_or_double(const TensorMeta& meta) { return meta.dtype == DType::kF32 || meta.dtype == DType::kF64; }

// Whether those of the operands that are tensors have the type of the first.
bool are_of_one_type(const Graph& graph, const Node& node, size_t count) {
  for (size_t i = 1; i < count; ++i)
    if (node.arg(i).is_value() && graph.meta(node.arg(i).as_value()).dtype != graph.meta(node.arg(0).as_value()).dtype)
      return false;
  return true;
}

Dims last_dim(const TensorMeta& meta) {
  Dims last;
  if (meta.dim() > 0) last.set(meta.sizes.size() - 1);
  return last;
}

bool has_rows(const TensorMeta& meta) {
  const Dims row = without_ones(meta, last_dim(meta));
  return is_of_rows(meta, row) && row_length(meta, row) <= kLongestRow;
}

// Steps of one operator.
class Writer {
 public:
  Writer(const Node& node, Lowering& lowering) : node_(node), lowering_(lowering), builder_(lowering.builder()) {}

  const TensorMeta& meta() const { return lowering_.meta(node_.arg(0).as_value()); }
  int16_t tensor(size_t arg) { return lowering_.tensor(node_.arg(arg).as_value()); }
  int16_t channels(size_t arg) { return lowering_.channels(node_.arg(arg).as_value(), meta().dim()); }
  bool has(size_t arg) const { return node_.arg(arg).is_value(); }
  int16_t number(double value) { return builder_.number(value, meta().dtype); }
  int16_t wide_number(double value) { return builder_.number(value, DType::kF64); }
  int16_t wide(int16_t value) { return builder_.convert(value, DType::kF64); }
  int16_t narrow(int16_t value) { return builder_.convert(value, meta().dtype); }
  int16_t compute(Op op, int16_t a, int16_t b = -1, int16_t c = -1) { return builder_.compute(op, {a, b, c}); }
  int16_t reduce(Op op, int16_t value) { return builder_.reduce(op, value); }
  void result(size_t index, int16_t step) { lowering_.set(node_.result(index), step); }
  // A moving average of each channel, in double as LibTorch's.
  void average_into(size_t arg, int16_t value, double share) {
    const int16_t rest = compute(Op::kMultiply, wide(channels(arg)), wide_number(1 - share));
    const int16_t next = narrow(compute(Op::kAdd, compute(Op::kMultiply, wide(value), wide_number(share)), rest));
    lowering_.set_channels(node_.arg(arg).as_value(), next);
  }

 private:
  const Node& node_;
  Lowering& lowering_;
  KernelBuilder& builder_;
};

bool is_layer_norm_of_rows(const Graph& graph, const Node& node) {
  const TensorMeta& input = graph.meta(node.arg(0).as_value());
  return has_rows(input) && node.arg(1).as_ints().size() == 1 && is_single_or_double(input) &&
         are_of_one_type(graph, node, 4);
}

// As LibTorch's kernel: the mean, then the mean square of what is left.
void add_layer_norm(const Node& node, Lowering& lowering) {
  Writer w(node, lowering);
  const int16_t x = w.tensor(0);
  const int16_t count = w.number(static_cast<double>(w.meta().sizes.back()));
  const int16_t mean = w.compute(Op::kDivide, w.reduce(Op::kSum, x), count);
  const int16_t centred = w.compute(Op::kSubtract, x, mean);
  const int16_t squares = w.reduce(Op::kSum, w.compute(Op::kMultiply, centred, centred));
  const int16_t variance = w.compute(Op::kDivide, squares, count);
  const int16_t root = w.compute(Op::kSqrt, w.compute(Op::kAdd, variance, w.number(node.arg(4).as_float())));
  const int16_t scale = w.compute(Op::kDivide, w.number(1), root);
  int16_t result = w.compute(Op::kMultiply, centred, scale);
  if (w.has(2)) result = w.compute(Op::kMultiply, result, w.tensor(2));
  if (w.has(3)) result = w.compute(Op::kAdd, result, w.tensor(3));
  const int16_t results[] = {result, mean, scale};
  for (size_t i = 0; i < 3; ++i) w.result(i, results[i]);
}

// With the statistics that it is given: one factor and one summand for each channel.
bool is_batch_norm_of_channels(const Graph& graph, const Node& node) {
  const TensorMeta& input = graph.meta(node.arg(0).as_value());
  const bool uses_given = node.arg(5).is(Operand::Kind::kBool) && !node.arg(5).as_bool();
  if (!uses_given || !node.arg(3).is_value() || !node.arg(4).is_value()) return false;
  const TensorMeta& result = graph.meta(node.result(0));
  return input.dim() >= 2 && is_single_or_double(input) && are_of_one_type(graph, node, 5) &&
         result.sizes == input.sizes && result.strides == input.strides;
}

// As LibTorch's kernel: the factor and the summand of a channel first.
void add_batch_norm(const Node& node, Lowering& lowering) {
  Writer w(node, lowering);
  const int16_t x = w.tensor(0), mean = w.channels(3), variance = w.channels(4);
  const int16_t root = w.compute(Op::kSqrt, w.compute(Op::kAdd, variance, w.number(node.arg(7).as_float())));
  int16_t factor = w.compute(Op::kDivide, w.number(1), root);
  if (w.has(1)) factor = w.compute(Op::kMultiply, factor, w.channels(1));
  const int16_t bias = w.has(2) ? w.channels(2) : w.number(0);
  const int16_t summand = w.compute(Op::kSubtract, bias, w.compute(Op::kMultiply, mean, factor));
  w.result(0, w.compute(Op::kAdd, w.compute(Op::kMultiply, x, factor), summand));
}

Dims all_but_channels(const TensorMeta&) { return Dims().set().reset(1); }

bool is_true(const Operand& operand) { return operand.is(Operand::Kind::kBool) && operand.as_bool(); }

// Whether a kernel takes its channels for rows. Other devices' libraries have kernels of their own for these.
bool has_rows_of_channels(const TensorMeta& input) {
  return input.dim() >= 2 && input.device.is_cpu() && is_single_or_double(input) &&
         is_of_rows(input, without_ones(input, all_but_channels(input)));
}

// With the batch's own statistics.
bool is_batch_norm_of_batch(const Graph& graph, const Node& node) {
  const TensorMeta& input = graph.meta(node.arg(0).as_value());
  if (!is_true(node.arg(5)) || !has_rows_of_channels(input) || !are_of_one_type(graph, node, 5)) return false;
  if (node.arg(3).is_value() != node.arg(4).is_value() || !(node.arg(7).as_float() > 0)) return false;
  for (size_t i = 3; i < 5; ++i)
    if (node.arg(i).is_value() && !graph.meta(node.arg(i).as_value()).is_non_overlapping_and_dense()) return false;
  return graph.meta(node.result(0)).is_contiguous();
}

// As LibTorch's kernel, sums in double: the mean, then the mean square of what is left. That kernel loses what a
// channel far from zero has in its last digits: it scales before it centres.
void add_batch_norm_of_batch(const Node& node, Lowering& lowering) {
  Writer w(node, lowering);
  const auto length = static_cast<double>(row_length(w.meta(), all_but_channels(w.meta())));
  const int16_t x = w.tensor(0);
  const int16_t mean = w.narrow(w.compute(Op::kDivide, w.reduce(Op::kSum, w.wide(x)), w.wide_number(length)));
  const int16_t centred = w.compute(Op::kSubtract, x, mean);
  const int16_t squares = w.narrow(w.reduce(Op::kSum, w.wide(w.compute(Op::kMultiply, centred, centred))));
  const int16_t variance = w.wide(w.compute(Op::kDivide, squares, w.number(length)));
  const int16_t root = w.compute(Op::kSqrt, w.compute(Op::kAdd, variance, w.wide_number(node.arg(7).as_float())));
  const int16_t scale = w.narrow(w.compute(Op::kDivide, w.wide_number(1), root));
  const int16_t factor = w.has(1) ? w.compute(Op::kMultiply, scale, w.channels(1)) : scale;
  const int16_t result = w.compute(Op::kMultiply, centred, factor);
  w.result(0, w.has(2) ? w.compute(Op::kAdd, result, w.channels(2)) : result);
  w.result(1, mean);
  w.result(2, scale);
  if (!w.has(3)) return;
  const int16_t unbiased = w.compute(Op::kDivide, squares, w.number(length - 1));
  w.average_into(3, mean, node.arg(6).as_float());
  w.average_into(4, unbiased, node.arg(6).as_float());
}

// Of the gradient with the statistics of the batch.
bool is_batch_norm_backward(const Graph& graph, const Node& node) {
  const TensorMeta &grad = graph.meta(node.arg(0).as_value()), &input = graph.meta(node.arg(1).as_value());
  return is_true(node.arg(7)) && node.arg(5).is_value() && node.arg(6).is_value() && has_rows_of_channels(grad) &&
         grad.sizes == input.sizes && input.is_contiguous() && are_of_one_type(graph, node, 7);
}

// As LibTorch's kernel, sums in double: that of the gradient, and that with what is centred.
void add_batch_norm_backward(const Node& node, Lowering& lowering) {
  Writer w(node, lowering);
  const int16_t length = w.number(static_cast<double>(row_length(w.meta(), all_but_channels(w.meta()))));
  const int16_t grad = w.tensor(0), mean = w.channels(5), scale = w.channels(6);
  const int16_t centred = w.compute(Op::kSubtract, w.tensor(1), mean);
  const int16_t sum = w.narrow(w.reduce(Op::kSum, w.wide(grad)));
  const int16_t product = w.narrow(w.reduce(Op::kSum, w.wide(w.compute(Op::kMultiply, centred, grad))));
  int16_t slope = w.compute(Op::kMultiply, w.compute(Op::kMultiply, product, scale), scale);
  slope = w.compute(Op::kDivide, slope, length);
  const int16_t projected = w.compute(Op::kMultiply, centred, slope);
  int16_t result = w.compute(Op::kSubtract, grad, w.compute(Op::kDivide, sum, length));
  result = w.compute(Op::kMultiply, w.compute(Op::kSubtract, result, projected), scale);
  if (w.has(2)) result = w.compute(Op::kMultiply, result, w.channels(2));
  w.result(0, result);
  w.result(1, w.compute(Op::kMultiply, product, scale));
  w.result(2, sum);
}

template <size_t kDim, size_t kTensors>
bool is_softmax_of_rows(const Graph& graph, const Node& node) {
  const TensorMeta& input = graph.meta(node.arg(0).as_value());
  const int64_t dim = node.arg(kDim).as_int();
  if (!has_rows(input) || !is_single_or_double(input) || !are_of_one_type(graph, node, kTensors)) return false;
  for (size_t i = 0; i < kTensors; ++i)
    if (!(graph.meta(node.arg(i).as_value()).sizes == input.sizes)) return false;
  const TensorMeta& result = graph.meta(node.result());
  return (dim == -1 || dim + 1 == input.dim()) && result.dtype == input.dtype && result.is_contiguous();
}

// Less the largest of the row, so that no exponential overflows.
void add_softmax(const Node& node, Lowering& lowering) {
  Writer w(node, lowering);
  const int16_t x = w.tensor(0);
  const int16_t e = w.compute(Op::kExp, w.compute(Op::kSubtract, x, w.reduce(Op::kLargest, x)));
  w.result(0, w.compute(Op::kDivide, e, w.reduce(Op::kSum, e)));
}

int64_t length_of_rows(const Graph& graph, const Node& node) {
  const TensorMeta& input = graph.meta(node.arg(0).as_value());
  return row_length(input, last_dim(input));
}

// On the CPU LibTorch's is faster where a row is few vectors, which it computes for many rows at a time, but for rows
// shorter than one.
constexpr int64_t kOneVector = 16, kManyVectors = 128, kManyVectorsOfLogarithms = 512;

bool is_worthwhile_softmax(const Graph& graph, const Node& node) {
  if (!is_softmax_of_rows<1, 1>(graph, node)) return false;
  const int64_t length = length_of_rows(graph, node);
  return !graph.meta(node.result()).device.is_cpu() || length < kOneVector || length >= kManyVectors;
}

bool is_worthwhile_log_softmax(const Graph& graph, const Node& node) {
  if (!is_softmax_of_rows<1, 1>(graph, node)) return false;
  return !graph.meta(node.result()).device.is_cpu() || length_of_rows(graph, node) >= kManyVectorsOfLogarithms;
}

bool is_safe_softmax_of_rows(const Graph& graph, const Node& node) {
  return is_softmax_of_rows<1, 1>(graph, node) && graph.meta(node.arg(0).as_value()).is_contiguous();
}

// Zeros where the largest is -inf.
void add_safe_softmax(const Node& node, Lowering& lowering) {
  Writer w(node, lowering);
  const int16_t x = w.tensor(0), largest = w.reduce(Op::kLargest, x);
  const int16_t e = w.compute(Op::kExp, w.compute(Op::kSubtract, x, largest));
  const int16_t masked = w.compute(Op::kEqual, largest, w.number(-std::numeric_limits<double>::infinity()));
  w.result(0, w.compute(Op::kWhere, masked, w.number(0), w.compute(Op::kDivide, e, w.reduce(Op::kSum, e))));
}

void add_log_softmax(const Node& node, Lowering& lowering) {
  Writer w(node, lowering);
  const int16_t x = w.tensor(0);
  const int16_t shifted = w.compute(Op::kSubtract, x, w.reduce(Op::kLargest, x));
  const int16_t sum = w.reduce(Op::kSum, w.compute(Op::kExp, shifted));
  w.result(0, w.compute(Op::kSubtract, shifted, w.compute(Op::kLog, sum)));
}

void add_softmax_backward(const Node& node, Lowering& lowering) {
  Writer w(node, lowering);
  const int16_t product = w.compute(Op::kMultiply, w.tensor(0), w.tensor(1));
  const int16_t sum = w.reduce(Op::kSum, product);
  w.result(0, w.compute(Op::kSubtract, product, w.compute(Op::kMultiply, w.tensor(1), sum)));
}

void add_log_softmax_backward(const Node& node, Lowering& lowering) {
  Writer w(node, lowering);
  const int16_t sum = w.reduce(Op::kSum, w.tensor(0));
  const int16_t share = w.compute(Op::kMultiply, w.compute(Op::kExp, w.tensor(1)), sum);
  w.result(0, w.compute(Op::kSubtract, w.tensor(0), share));
}

constexpr int64_t kAny = 0, kMany = kManyElements, kNever = std::numeric_limits<int64_t>::max();

constexpr WrittenOut kRows[] = {
    {graph::ops::k_native_layer_norm, last_dim, 3, kMany, is_layer_norm_of_rows, add_layer_norm},
    {graph::ops::k_native_batch_norm, nullptr, 1, kNever, is_batch_norm_of_channels, add_batch_norm},
    {graph::ops::k_native_batch_norm, all_but_channels, 3, kAny, is_batch_norm_of_batch, add_batch_norm_of_batch},
    {graph::ops::k_native_batch_norm_backward, all_but_channels, 3, kAny, is_batch_norm_backward,
     add_batch_norm_backward},
    {graph::ops::k__softmax, last_dim, 1, kMany, is_worthwhile_softmax, add_softmax},
    {graph::ops::k__safe_softmax, last_dim, 1, kMany, is_safe_softmax_of_rows, add_safe_softmax},
    {graph::ops::k__log_softmax, last_dim, 1, kMany, is_worthwhile_log_softmax, add_log_softmax},
    {graph::ops::k__softmax_backward_data, last_dim, 1, kNever, is_softmax_of_rows<2, 2>, add_softmax_backward},
    {graph::ops::k__log_softmax_backward_data, last_dim, 1, kNever, is_softmax_of_rows<2, 2>, add_log_softmax_backward},
};

}  // namespace

const WrittenOut* written_out(const Graph& graph, const Node& node) {
  const auto* found = std::find_if(std::begin(kRows), std::end(kRows),
                                   [&](const WrittenOut& row) { return row.op == node.op && row.fits(graph, node); });
  return found == std::end(kRows) ? nullptr : found;
}

}  // namespace framejit::codegen
