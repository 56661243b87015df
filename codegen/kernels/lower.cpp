#include "codegen/kernels/lower.h"

#include <algorithm>
#include <cstdlib>
#include <unordered_map>

#include "codegen/kernels/kernel_builder.h"
#include "graph/generated/op_ids.h"
#include "graph/infer/iterator.h"
#include "graph/op.h"

namespace framejit::codegen {

using graph::DType;
using graph::Expression;
using graph::ExpressionNode;
using graph::ExpressionOp;
using graph::Graph;
using graph::Node;
using graph::Operand;
using graph::TensorMeta;
using graph::ValueId;

namespace {

constexpr ExpressionNode kCopyNodes[] = {{ExpressionOp::kArgument, false, {-1, -1, -1}, 0}};
constexpr Expression kCopy{kCopyNodes, 1, graph::kFloating | graph::kInteger | graph::kBoolean, false};

// Conversions have no expression: what they compute is their argument.
const Expression* expression_of(const Node& node) {
  return node.op == graph::ops::k__to_copy ? &kCopy : graph::expression_of(node.op);
}

bool is_known(const TensorMeta& meta) {
  return meta.layout == graph::Layout::kStrided && meta.device.is_cpu() && value_type(meta.dtype) != DType::kUndefined;
}

bool has_only_results(const Node& node) {
  constexpr uint32_t kUnfit = graph::kOpMutates | graph::kOpRandom | graph::kOpDataDependent | graph::kOpSideEffect |
                              graph::kOpView | graph::kOpMaybeView | graph::kOpUninitialized | graph::kOpMayRaise;
  return (graph::op_info(node.op).flags & kUnfit) == 0;
}

// Beyond this a sum in order loses more than LibTorch's, which sums in a tree.
constexpr int64_t kLongestRow = 1 << 16;

bool is_of_rows(const TensorMeta& meta) {
  return meta.dim() > 0 && meta.is_contiguous() && meta.sizes.back() > 1 && meta.sizes.back() <= kLongestRow;
}

// Over the last dimension alone, which stays as one of size one.
bool reduces_rows(const Graph& graph, const Node& node) {
  if (!node.arg(0).is_value() || !is_of_rows(graph.meta(node.arg(0).as_value()))) return false;
  const std::vector<graph::SchemaArg>& args = graph::op_info(node.op).parsed.args;
  const int64_t last = graph.meta(node.arg(0).as_value()).dim() - 1;
  bool last_only = false, keeps = false;
  for (size_t i = 0; i < args.size() && i < node.operand_count; ++i) {
    const Operand& operand = node.arg(i);
    if (args[i].name == "keepdim") keeps = operand.is(Operand::Kind::kBool) && operand.as_bool();
    if (args[i].name != "dim") continue;
    if (operand.is(Operand::Kind::kInt)) last_only = operand.as_int() == last || operand.as_int() == -1;
    if (operand.is(Operand::Kind::kInts) && operand.as_ints().size() == 1)
      last_only = operand.as_ints()[0] == last || operand.as_ints()[0] == -1;
  }
  return last_only && keeps;
}

bool is_layer_norm_of_rows(const Graph& graph, const Node& node) {
  const TensorMeta& input = graph.meta(node.arg(0).as_value());
  if (!is_of_rows(input) || node.arg(1).as_ints().size() != 1) return false;
  if (input.dtype != DType::kF32 && input.dtype != DType::kF64) return false;
  for (size_t i : {2, 3})
    if (node.arg(i).is_value() && graph.meta(node.arg(i).as_value()).dtype != input.dtype) return false;
  return true;
}

FusedKind kind_by_operator(const Graph& graph, const Node& node) {
  if (node.op == graph::ops::k_native_layer_norm)
    return is_layer_norm_of_rows(graph, node) ? FusedKind::kRows : FusedKind::kNone;
  if (node.result_count != 1 || !expression_of(node) || !has_only_results(node)) return FusedKind::kNone;
  if (node.op == graph::ops::k__to_copy) return node.arg(0).is_value() ? FusedKind::kElementwise : FusedKind::kNone;
  if (expression_of(node)->reduces) return reduces_rows(graph, node) ? FusedKind::kRows : FusedKind::kNone;
  return graph::op_info(node.op).has(graph::kOpPointwise) ? FusedKind::kElementwise : FusedKind::kNone;
}

// Reads the nodes' expressions into one kernel.
class Lowering {
 public:
  Lowering(const Graph& graph, KernelBuilder& builder) : graph_(graph), builder_(builder) {}

  void add(const Node& node) {
    if (node.op == graph::ops::k_native_layer_norm) return add_layer_norm(node);
    values_[node.result().value] = result_of(node);
  }
  std::vector<ValueId>& inputs() { return inputs_; }
  int16_t value(ValueId id) const { return values_.at(id.value); }

 private:
  int16_t result_of(const Node& node);
  void add_layer_norm(const Node& node);
  int16_t at(const Node& node, const Expression& expression, int16_t id);
  int16_t leaf(const Node& node, const ExpressionNode& leaf);
  int16_t argument(const Node& node, const ExpressionNode& leaf);
  int16_t tensor(ValueId id);
  DType compute_type(const Node& node, const Expression& expression) const;
  bool has_kind(const Expression& expression) const;

  const Graph& graph_;
  KernelBuilder& builder_;
  std::vector<ValueId> inputs_;
  std::unordered_map<uint32_t, int16_t> values_;  // by undetached value: its step
  // Of the node that is being read.
  DType type_ = DType::kUndefined;
  DType promoted_ = DType::kUndefined;
  std::vector<int16_t> read_;  // by node of the expression
};

TensorMeta scalar_meta(const Operand& scalar) {
  const DType dtype = scalar.is(Operand::Kind::kFloat) ? DType::kF64
                      : scalar.is(Operand::Kind::kInt) ? DType::kI64
                                                       : DType::kBool;
  TensorMeta meta = TensorMeta::fresh({}, dtype, {});
  meta.wrapped_number = true;
  return meta;
}

// The type that the operands promote to where the result does not tell: a comparison's.
DType common_type(const Graph& graph, const Node& node, const Expression& expression) {
  graph::ResultType types(DType::kF32);
  for (const ExpressionNode& leaf : expression.all()) {
    if (leaf.op != ExpressionOp::kArgument) continue;
    const Operand& operand = node.arg(static_cast<size_t>(leaf.index));
    if (operand.is_value()) types.add(graph.meta(operand.as_value()));
    if (operand.is_scalar()) types.add(scalar_meta(operand));
  }
  return types.get();
}

DType Lowering::compute_type(const Node& node, const Expression& expression) const {
  const DType result = graph_.meta(node.result()).dtype;
  return result == DType::kBool ? common_type(graph_, node, expression) : result;
}

bool Lowering::has_kind(const Expression& expression) const {
  return expression.holds_for(graph::is_floating(type_) ? graph::kFloating
                              : type_ == DType::kBool   ? graph::kBoolean
                                                        : graph::kInteger);
}

int16_t Lowering::tensor(ValueId id) {
  const ValueId source = undetached(graph_, id);
  auto known = values_.find(source.value);
  if (known != values_.end()) return known->second;
  const auto buffer = static_cast<uint16_t>(inputs_.size());
  inputs_.push_back(source);
  builder_.kernel().buffers.push_back({graph_.meta(source).dtype, Access::kContiguous});
  return values_[source.value] = builder_.load(buffer);
}

// Operators differ in what becomes of a number that their type does not hold.
bool is_in_range(int64_t number, DType type) {
  if (graph::is_floating(type) || type == DType::kBool) return std::abs(static_cast<double>(number)) <= 1LL << 53;
  const int bits = graph::itemsize(type) * 8 - (type == DType::kU8 ? 0 : 1);
  if (bits > 53) return std::abs(static_cast<double>(number)) <= 1LL << 53;  // constants pass through a double
  return number < int64_t{1} << bits && number >= (type == DType::kU8 ? 0 : -(int64_t{1} << bits));
}

int16_t Lowering::argument(const Node& node, const ExpressionNode& leaf) {
  const Operand& operand = node.arg(static_cast<size_t>(leaf.index));
  const DType type = leaf.op == ExpressionOp::kTruthArgument ? DType::kBool : type_;
  if (operand.is_value()) {
    const int16_t value = tensor(operand.as_value());
    // An operator that takes a wider type than it gives has rules of its own.
    if (graph::is_floating(type) && builder_.type_of(value) == DType::kF64 && type != DType::kF64 &&
        node.op != graph::ops::k__to_copy && graph_.meta(operand.as_value()).dim() > 0)
      builder_.fail();
    return builder_.convert(value, type);
  }
  if (operand.is(Operand::Kind::kFloat)) {
    if (!graph::is_floating(type)) builder_.fail();
    const int16_t number = builder_.number(operand.as_float(), type);
    // Comparisons have both sides in the type of the tensor, which may be a half one.
    return promoted_ == type ? number : builder_.rounded(number, promoted_);
  }
  if (operand.is(Operand::Kind::kInt)) {
    if (!is_in_range(operand.as_int(), type)) builder_.fail();
    return builder_.number(static_cast<double>(operand.as_int()), type);
  }
  if (operand.is(Operand::Kind::kBool)) return builder_.number(operand.as_bool(), type);
  if (!operand.is_none()) builder_.fail();
  return builder_.number(0, type);
}

int16_t Lowering::leaf(const Node& node, const ExpressionNode& leaf) {
  switch (leaf.op) {
    case ExpressionOp::kConstant:
      return builder_.number(leaf.value, leaf.truth ? DType::kBool : type_);
    case ExpressionOp::kHas:
      return builder_.truth(!node.arg(static_cast<size_t>(leaf.index)).is_none());
    case ExpressionOp::kCount:
      return builder_.number(static_cast<double>(graph_.meta(node.arg(0).as_value()).sizes.back()), type_);
    case ExpressionOp::kTextIs: {
      const Operand& text = node.arg(static_cast<size_t>(leaf.index));
      return builder_.truth(text.is(Operand::Kind::kString) && text.as_string() == leaf.text);
    }
    case ExpressionOp::kArgument:
    case ExpressionOp::kTruthArgument:
      return argument(node, leaf);
    default:
      builder_.fail();
      return builder_.number(0, type_);
  }
}

// As LibTorch's kernel: the mean, then the mean square of what is left.
void Lowering::add_layer_norm(const Node& node) {
  using Op = ExpressionOp;
  const ValueId input = node.arg(0).as_value();
  const DType type = graph_.meta(input).dtype;
  const int16_t x = tensor(input);
  const int16_t count = builder_.number(static_cast<double>(graph_.meta(input).sizes.back()), type);
  const int16_t mean = builder_.compute(Op::kDivide, {builder_.reduce(Op::kSum, x), count, -1});
  const int16_t centred = builder_.compute(Op::kSubtract, {x, mean, -1});
  const int16_t squares = builder_.reduce(Op::kSum, builder_.compute(Op::kMultiply, {centred, centred, -1}));
  const int16_t variance = builder_.compute(Op::kDivide, {squares, count, -1});
  const int16_t eps = builder_.number(node.arg(4).as_float(), type);
  const int16_t root = builder_.compute(Op::kSqrt, {builder_.compute(Op::kAdd, {variance, eps, -1}), -1, -1});
  const int16_t scale = builder_.compute(Op::kDivide, {builder_.number(1, type), root, -1});
  int16_t result = builder_.compute(Op::kMultiply, {centred, scale, -1});
  if (node.arg(2).is_value()) result = builder_.compute(Op::kMultiply, {result, tensor(node.arg(2).as_value()), -1});
  if (node.arg(3).is_value()) result = builder_.compute(Op::kAdd, {result, tensor(node.arg(3).as_value()), -1});
  const int16_t results[] = {result, mean, scale};
  for (size_t i = 0; i < 3; ++i) values_[node.result(i).value] = results[i];
}

// Lazily: what a condition known here leaves out makes no steps.
int16_t Lowering::at(const Node& node, const Expression& expression, int16_t id) {
  int16_t& known = read_[static_cast<size_t>(id)];
  if (known >= 0) return known;
  const ExpressionNode& one = expression.nodes[id];
  if (one.operands[0] < 0) return known = leaf(node, one);
  KernelBuilder::Operands operands = {-1, -1, -1};
  operands[0] = at(node, expression, one.operands[0]);
  if (one.op == ExpressionOp::kWhere)
    if (std::optional<bool> which = builder_.known_truth(operands[0]))
      return read_[static_cast<size_t>(id)] = at(node, expression, one.operands[*which ? 1 : 2]);
  for (size_t i = 1; i < 3 && one.operands[i] >= 0; ++i) operands[i] = at(node, expression, one.operands[i]);
  if (graph::is_reduction(one.op)) return read_[static_cast<size_t>(id)] = builder_.reduce(one.op, operands[0]);
  return read_[static_cast<size_t>(id)] = builder_.compute(one.op, operands);
}

int16_t Lowering::result_of(const Node& node) {
  const Expression& expression = *expression_of(node);
  promoted_ = compute_type(node, expression);
  const DType result = graph_.meta(node.result()).dtype;
  type_ = value_type(promoted_);
  // Powers of half types are LibTorch's pow also where those of f32 are roots.
  const bool other_power = node.op == graph::ops::k_pow_Tensor_Scalar && type_ != promoted_;
  if (type_ == DType::kUndefined || !has_kind(expression) || other_power) {
    builder_.fail();
    return builder_.truth(false);
  }
  const bool truth = expression.result().truth;
  if (!truth || result != DType::kBool) promoted_ = type_;
  read_.assign(expression.count, -1);
  return builder_.rounded(at(node, expression, static_cast<int16_t>(expression.count - 1)), result);
}

std::vector<const TensorMeta*> metas_of(const Graph& graph, const FusedGroup& group) {
  std::vector<const TensorMeta*> metas;
  metas.reserve(group.inputs.size() + group.outputs.size());
  for (ValueId id : group.inputs) metas.push_back(&graph.meta(id));
  for (ValueId id : group.outputs) metas.push_back(&graph.meta(id));
  return metas;
}

}  // namespace

ValueId undetached(const Graph& graph, ValueId value) {
  while (true) {
    const graph::NodeId definition = graph.value(value).definition;
    if (!definition.valid()) return value;
    const Node& node = graph.node(definition);
    if (node.op != graph::ops::k_detach || !node.arg(0).is_value()) return value;
    value = node.arg(0).as_value();
  }
}

namespace {

bool is_fresh_and_known(const graph::ResultMeta& result) {
  return result.kind == graph::ResultKind::kTensor && result.alias == graph::AliasKind::kFresh &&
         is_known(result.meta) && result.meta.numel() != 0 && result.meta.is_non_overlapping_and_dense();
}

bool are_operands_known(const Graph& graph, const Node& node) {
  for (const Operand& operand : node.args()) {
    if (operand.is(Operand::Kind::kValues) || operand.is(Operand::Kind::kComplex)) return false;
    if (operand.is_value() && !is_known(graph.meta(operand.as_value()))) return false;
  }
  return true;
}

}  // namespace

FusedKind fused_kind(const Graph& graph, const Node& node) {
  if (node.erased) return FusedKind::kNone;
  const FusedKind kind = kind_by_operator(graph, node);
  if (kind == FusedKind::kNone || !are_operands_known(graph, node)) return FusedKind::kNone;
  for (size_t i = 0; i < node.result_count; ++i)
    if (!is_fresh_and_known(graph.value(node.result(i)).result)) return FusedKind::kNone;
  KernelBuilder builder;
  Lowering(graph, builder).add(node);
  return builder.failed() ? FusedKind::kNone : kind;
}

std::optional<FusedGroup> lower(const Graph& graph, std::vector<graph::NodeId> nodes, std::vector<ValueId> outputs) {
  FusedGroup group{std::move(nodes), {}, std::move(outputs), {}, {}};
  KernelBuilder builder;
  Lowering lowering(graph, builder);
  for (graph::NodeId id : group.nodes) lowering.add(graph.node(id));
  group.inputs = lowering.inputs();
  for (ValueId id : group.outputs) {
    builder.kernel().buffers.push_back({graph.meta(id).dtype, Access::kContiguous, true});
    builder.store(static_cast<uint16_t>(builder.kernel().buffers.size() - 1), lowering.value(id));
  }
  if (builder.failed()) return std::nullopt;
  group.kernel = builder.take();
  const TensorMeta* whole = &graph.meta(group.outputs.front());
  bool reduces = false;
  for (graph::NodeId id : group.nodes) {
    if (kind_by_operator(graph, graph.node(id)) != FusedKind::kRows) continue;
    whole = &graph.meta(graph.node(id).arg(0).as_value());
    reduces = true;
  }
  std::vector<const TensorMeta*> metas = metas_of(graph, group);
  group.loop = make_loop(*whole, metas, reduces);
  for (size_t b = 0; b < metas.size(); ++b) {
    Buffer& buffer = group.kernel.buffers[b];
    buffer.access = access_of(group.loop, b, buffer.dtype);
  }
  return group;
}

}  // namespace framejit::codegen
