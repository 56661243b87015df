#include "codegen/kernels/lower.h"

#include <algorithm>
#include <cstdlib>

#include "codegen/kernels/kernel_builder.h"
#include "codegen/kernels/lowering.h"
#include "codegen/kernels/rows.h"
#include "codegen/kernels/written_out.h"
#include "graph/alias.h"
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

// Conversions and copies have no expression: what they compute is their argument.
bool is_copy(const Node& node) { return node.op == graph::ops::k__to_copy || node.op == graph::ops::k_clone; }

const Expression* expression_of(const Node& node) { return is_copy(node) ? &kCopy : graph::expression_of(node.op); }

// One that leaves elements in their order: LibTorch turns blocks of others round.
bool is_copy_in_order(const Graph& graph, const Node& node) {
  if (!node.arg(0).is_value()) return false;
  return node.op != graph::ops::k_clone ||
         graph.meta(node.arg(0).as_value()).strides == graph.meta(node.result()).strides;
}

bool is_known(const TensorMeta& meta) {
  const bool has_kernels = meta.device.is_cpu() || meta.device.is_cuda();
  return meta.layout == graph::Layout::kStrided && has_kernels && value_type(meta.dtype) != DType::kUndefined;
}

// It writes the numbers of its first argument, no other, and returns it as it is laid out.
bool is_in_place(const Graph& graph, const Node& node) {
  const graph::OpInfo& info = graph::op_info(node.op);
  if (!info.has(graph::kOpInPlace) || info.has(graph::kOpMetaInPlace) || node.result_count != 1) return false;
  for (size_t i = 0; i < node.operand_count; ++i)
    if (info.writes_arg(i) != (i == 0)) return false;
  const graph::ResultMeta& result = graph.value(node.result()).result;
  if (!node.arg(0).is_value() || result.alias != graph::AliasKind::kSame || result.alias_operand != 0) return false;
  const TensorMeta& before = graph.meta(node.arg(0).as_value());
  return before.sizes == result.meta.sizes && before.strides == result.meta.strides;
}

bool has_only_results(const Graph& graph, const Node& node) {
  constexpr uint32_t kUnfit = graph::kOpRandom | graph::kOpDataDependent | graph::kOpSideEffect | graph::kOpView |
                              graph::kOpMaybeView | graph::kOpUninitialized | graph::kOpMayRaise;
  const graph::OpInfo& info = graph::op_info(node.op);
  return (info.flags & kUnfit) == 0 && (!info.has(graph::kOpMutates) || is_in_place(graph, node));
}

FusedKind kind_by_operator(const Graph& graph, const Node& node) {
  if (const WrittenOut* found = written_out(graph, node))
    return found->row ? FusedKind::kRows : FusedKind::kElementwise;
  if (node.result_count != 1 || !expression_of(node) || !has_only_results(graph, node)) return FusedKind::kNone;
  if (is_copy(node)) return is_copy_in_order(graph, node) ? FusedKind::kElementwise : FusedKind::kNone;
  if (expression_of(node)->reduces) return reduces_rows(graph, node) ? FusedKind::kRows : FusedKind::kNone;
  const bool elementwise = graph::op_info(node.op).has(graph::kOpPointwise) || is_in_place(graph, node);
  return elementwise ? FusedKind::kElementwise : FusedKind::kNone;
}

TensorMeta scalar_meta(const Operand& scalar) {
  const DType dtype = scalar.is(Operand::Kind::kFloat) ? DType::kF64
                      : scalar.is(Operand::Kind::kInt) ? DType::kI64
                                                       : DType::kBool;
  TensorMeta meta = TensorMeta::fresh({}, dtype, {});
  meta.wrapped_number = true;
  return meta;
}

// The type that the operands promote to where the result does not tell: a comparison's, or that of what is written in
// place, which is one of the operands even where the expression does not read it.
DType common_type(const Graph& graph, const Node& node, const Expression& expression) {
  graph::ResultType types(DType::kF32);
  auto add = [&](size_t argument) {
    const Operand& operand = node.arg(argument);
    if (operand.is_value()) types.add(graph.meta(operand.as_value()));
    if (operand.is_scalar()) types.add(scalar_meta(operand));
  };
  if (written_in_place(graph, node).valid()) add(0);
  for (const ExpressionNode& leaf : expression.all())
    if (leaf.op == ExpressionOp::kArgument) add(static_cast<size_t>(leaf.index));
  return types.get();
}

}  // namespace

void Lowering::add(const Node& node) {
  if (const WrittenOut* found = written_out(graph_, node)) return found->add(node, *this);
  const ValueId target = tensor_of(graph_, node.result());
  if (written_in_place(graph_, node).valid()) add_target(target);
  values_[target.value] = result_of(node);
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
  const ValueId source = tensor_of(graph_, id);
  auto known = values_.find(source.value);
  if (known == values_.end()) {
    if (channels_.count(source.value)) builder_.fail();  // it is read along another dimension
    return values_[source.value] = load(source, graph_.meta(source));
  }
  const bool is_made_here = std::find(inputs_.begin(), inputs_.end(), source) == inputs_.end();
  if (is_made_here && drops_dims(graph_, source)) builder_.fail();  // for others its rows are elements
  return known->second;
}

int16_t Lowering::load(ValueId source, TensorMeta meta) {
  const auto buffer = static_cast<uint16_t>(inputs_.size());
  inputs_.push_back(source);
  builder_.kernel().buffers.push_back({meta.dtype, Access::kContiguous});
  input_metas_.push_back(std::move(meta));
  return builder_.load(buffer);
}

int16_t Lowering::channels(ValueId id, int64_t rank) {
  const ValueId source = tensor_of(graph_, id);
  if (values_.count(source.value)) builder_.fail();  // these nodes make it, or read it along another dimension
  if (const auto known = channels_.find(source.value); known != channels_.end()) return known->second;
  TensorMeta meta = graph_.meta(source);
  for (int64_t d = 2; d < rank; ++d) {
    meta.sizes.push_back(1);
    meta.strides.push_back(0);
  }
  return channels_[source.value] = load(source, std::move(meta));
}

void Lowering::set_channels(ValueId id, int16_t step) {
  const ValueId source = tensor_of(graph_, id);
  channels_[source.value] = step;
  add_written(source);
}

void Lowering::add_target(ValueId target) {
  tensor(target);
  add_written(target);
}

void Lowering::add_written(ValueId target) {
  const bool is_input = std::find(inputs_.begin(), inputs_.end(), target) != inputs_.end();
  if (is_input && std::find(written_.begin(), written_.end(), target) == written_.end()) written_.push_back(target);
}

namespace {

// Operators differ in what becomes of a number that their type does not hold.
bool is_in_range(int64_t number, DType type) {
  if (graph::is_floating(type) || type == DType::kBool) return std::abs(static_cast<double>(number)) <= 1LL << 53;
  const int bits = graph::itemsize(type) * 8 - (type == DType::kU8 ? 0 : 1);
  if (bits > 53) return std::abs(static_cast<double>(number)) <= 1LL << 53;  // constants pass through a double
  return number < int64_t{1} << bits && number >= (type == DType::kU8 ? 0 : -(int64_t{1} << bits));
}

}  // namespace

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
    case ExpressionOp::kIsCuda:
      return builder_.truth(graph_.meta(node.result()).device.is_cuda());
    case ExpressionOp::kIsOneDnns:
    case ExpressionOp::kLosesInfinity: {
      const TensorMeta& meta = graph_.meta(node.arg(static_cast<size_t>(leaf.index)).as_value());
      const bool is_onednns = graph::is_onednns(meta);
      is_onednns_ |= is_onednns;
      return builder_.truth(leaf.op == ExpressionOp::kIsOneDnns ? is_onednns : graph::loses_infinity(meta));
    }
    case ExpressionOp::kSince:
      return builder_.truth(graph::is_torch_since(leaf.value));
    case ExpressionOp::kCount:
      return builder_.number(
          static_cast<double>(row_length(graph_.meta(node.arg(0).as_value()), row_dims(graph_, node))), type_);
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

namespace {

// Whether the device's operator rounds where the expression does not, so that whole numbers come out differently:
// CUDA's multiplies by the reciprocal of a number and truncates what that gives.
bool rounds_first(const Graph& graph, const Node& node) {
  if (node.op != graph::ops::k_div_Scalar_mode && node.op != graph::ops::k_div__Scalar_mode) return false;
  const TensorMeta& result = graph.meta(node.result());
  const Operand& mode = node.arg(2);
  return result.device.is_cuda() && graph::is_floating(result.dtype) && mode.is(Operand::Kind::kString) &&
         mode.as_string() == "trunc";
}

}  // namespace

int16_t Lowering::result_of(const Node& node) {
  const Expression& expression = *expression_of(node);
  promoted_ = compute_type(node, expression);
  const DType result = graph_.meta(node.result()).dtype;
  // In place the result is converted to the type of what is written, where operators differ in what they allow.
  if (written_in_place(graph_, node).valid() && common_type(graph_, node, expression) != result) builder_.fail();
  type_ = value_type(promoted_);
  // Powers of half types are LibTorch's pow also where those of f32 are roots.
  const bool other_power = node.op == graph::ops::k_pow_Tensor_Scalar && type_ != promoted_;
  if (type_ == DType::kUndefined || !has_kind(expression) || other_power || rounds_first(graph_, node)) {
    builder_.fail();
    return builder_.truth(false);
  }
  const bool truth = expression.result().truth;
  if (!truth || result != DType::kBool) promoted_ = type_;
  read_.assign(expression.count, -1);
  return builder_.rounded(at(node, expression, static_cast<int16_t>(expression.count - 1)), result);
}

namespace {

// Of each buffer, how it lies among the dimensions of the whole.
std::vector<TensorMeta> metas_of(const Graph& graph, const FusedGroup& group, const TensorMeta& whole, Dims row,
                                 std::vector<TensorMeta> metas) {
  for (ValueId id : group.outputs)
    metas.push_back(drops_dims(graph, id) ? with_dims(graph.meta(id), whole, row) : graph.meta(id));
  for (ValueId id : group.written) {
    const auto at = std::find(group.inputs.begin(), group.inputs.end(), id) - group.inputs.begin();
    metas.push_back(metas[static_cast<size_t>(at)]);
  }
  return metas;
}

}  // namespace

ValueId tensor_of(const Graph& graph, ValueId value) {
  while (true) {
    const graph::NodeId definition = graph.value(value).definition;
    if (!definition.valid()) return value;
    const Node& node = graph.node(definition);
    const bool is_argument = node.op == graph::ops::k_detach || is_in_place(graph, node);
    if (!is_argument || !node.arg(0).is_value()) return value;
    value = node.arg(0).as_value();
  }
}

ValueId written_in_place(const Graph& graph, const Node& node) {
  return is_in_place(graph, node) ? tensor_of(graph, node.arg(0).as_value()) : ValueId();
}

std::vector<ValueId> written_by_rows(const Graph& graph, const Node& node) {
  std::vector<ValueId> written;
  if (!graph::op_info(node.op).has(graph::kOpWritesStatistics)) return written;
  graph::written_values(graph, node, written);
  for (ValueId& id : written) id = tensor_of(graph, id);
  return written;
}

namespace {

bool is_known_result(const graph::ResultMeta& result, bool in_place) {
  return result.kind == graph::ResultKind::kTensor && (in_place || result.alias == graph::AliasKind::kFresh) &&
         is_known(result.meta) && result.meta.numel() != 0 && result.meta.is_non_overlapping_and_dense();
}

bool are_operands_known(const Graph& graph, const Node& node) {
  const graph::Device device = graph.meta(node.result(0)).device;
  for (const Operand& operand : node.args()) {
    if (operand.is(Operand::Kind::kValues) || operand.is(Operand::Kind::kComplex)) return false;
    if (!operand.is_value()) continue;
    const TensorMeta& meta = graph.meta(operand.as_value());
    if (!is_known(meta) || meta.device != device) return false;
  }
  return true;
}

}  // namespace

bool is_worth_a_kernel(const Graph& graph, const Node& node) {
  const TensorMeta& result = graph.meta(node.result(0));
  if (!result.device.is_cpu()) return false;
  if (const WrittenOut* found = written_out(graph, node)) return result.numel() >= found->alone;
  if (result.dtype != DType::kF32 || result.numel() < kManyElements) return false;
  KernelBuilder builder;
  Lowering lowering(graph, builder);
  lowering.add(node);
  if (builder.failed() || lowering.is_onednns()) return false;
  const std::vector<Step>& steps = builder.kernel().steps;
  return std::any_of(steps.begin(), steps.end(), [](const Step& step) { return is_function(step.op); });
}

FusedKind fused_kind(const Graph& graph, const Node& node) {
  if (node.erased) return FusedKind::kNone;
  const FusedKind kind = kind_by_operator(graph, node);
  if (kind == FusedKind::kNone || !are_operands_known(graph, node)) return FusedKind::kNone;
  const WrittenOut* found = written_out(graph, node);
  const size_t results = found ? found->results : node.result_count;
  for (size_t i = 0; i < results; ++i) {
    const graph::ResultMeta& result = graph.value(node.result(i)).result;
    const bool is_left_out = found && !result.meta.defined();
    if (!is_left_out && !is_known_result(result, is_in_place(graph, node))) return FusedKind::kNone;
  }
  KernelBuilder builder;
  Lowering(graph, builder).add(node);
  return builder.failed() ? FusedKind::kNone : kind;
}

std::optional<FusedGroup> lower(const Graph& graph, std::vector<graph::NodeId> nodes, std::vector<ValueId> outputs) {
  FusedGroup group;
  group.nodes = std::move(nodes);
  group.outputs = std::move(outputs);
  KernelBuilder builder;
  Lowering lowering(graph, builder);
  for (graph::NodeId id : group.nodes) lowering.add(graph.node(id));
  group.inputs = lowering.inputs();
  group.written = lowering.written();
  if (group.outputs.empty() && group.written.empty()) return std::nullopt;  // all of it is for nobody
  for (const std::vector<ValueId>* stored : {&group.outputs, &group.written})
    for (ValueId id : *stored) {
      if (lowering.value(id) < 0) return std::nullopt;
      builder.kernel().buffers.push_back({graph.meta(id).dtype, Access::kContiguous, true});
      builder.store(static_cast<uint16_t>(builder.kernel().buffers.size() - 1), lowering.value(id));
    }
  if (builder.failed()) return std::nullopt;
  group.kernel = builder.take();
  const TensorMeta* whole = &graph.meta(group.outputs.empty() ? group.written.front() : group.outputs.front());
  group.device = whole->device;
  Dims row;
  for (graph::NodeId id : group.nodes) {
    const Dims of_node = row_dims(graph, graph.node(id));
    if (of_node.none()) continue;
    whole = &graph.meta(graph.node(id).arg(0).as_value());
    row = of_node;
  }
  const std::vector<TensorMeta> metas = metas_of(graph, group, *whole, row, lowering.input_metas());
  group.loop = make_loop(*whole, metas, row);
  group.kernel.depth = group.loop.depth;
  for (size_t b = 0; b < metas.size(); ++b) {
    Buffer& buffer = group.kernel.buffers[b];
    buffer.access = access_of(group.loop, b, buffer.dtype);
  }
  return group;
}

}  // namespace framejit::codegen
