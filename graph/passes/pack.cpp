#include "graph/passes/pack.h"

#include <algorithm>

#include "graph/builder.h"
#include "graph/generated/builders.h"
#include "graph/generated/op_ids.h"
#include "graph/passes/frozen.h"
#include "graph/passes/onednn.h"
#include "graph/passes/relayout.h"

namespace framejit::graph {
namespace {

// What oneDNN computes of a convolution's results. Not relu: it makes 0 of nan; nor gelu, which makes nan of infinity.
struct Activation {
  OpId op;
  bool in_place;
  const char* name;
};
constexpr Activation kActivations[] = {
    {ops::k_sigmoid, false, "sigmoid"}, {ops::k_sigmoid_, true, "sigmoid"},     {ops::k_tanh, false, "tanh"},
    {ops::k_tanh_, true, "tanh"},       {ops::k_hardswish, false, "hardswish"}, {ops::k_hardswish_, true, "hardswish"},
    {ops::k_silu, false, "swish"},      {ops::k_silu_, true, "swish"},
};

// Fewer multiplications than this are done before oneDNN has looked at its arguments.
constexpr int64_t kFewestMultiplications = 1 << 21;

bool is_one(const Operand& operand) {
  if (operand.is(Operand::Kind::kFloat)) return operand.as_float() == 1;
  return operand.is(Operand::Kind::kInt) && operand.as_int() == 1;
}

class Packer {
 public:
  Packer(const Graph& from, const std::vector<bool>& frozen_inputs, const PackedOps& ops,
         const InferEnvironment& environment)
      : from_(from),
        ops_(ops),
        frozen_(frozen_values(from, frozen_inputs)),
        builder_(to_, environment),
        values_(from, to_, environment),
        readers_(from.value_count()),
        is_output_(from.value_count()),
        absorbed_(from.node_count()) {}

  std::optional<ChangedGraph> run() {
    find_readers();
    for (ValueId input : from_.inputs()) values_.add_input(input);
    for (size_t n = 0; n < from_.node_count(); ++n) {
      const Node& node = from_.node(NodeId(static_cast<uint32_t>(n)));
      if (node.erased || absorbed_[n]) continue;
      if (!add_packed(node) && !values_.add(node)) return std::nullopt;
      if (failed_) return std::nullopt;
    }
    if (packed_ == 0) return std::nullopt;
    ChangedGraph packed;
    if (!values_.finish(packed.values)) return std::nullopt;
    packed.graph = std::move(to_);
    return packed;
  }

 private:
  struct Norm {
    const Node* node;
    ValueId weight, bias, mean, variance;  // of the original; weight and bias may be invalid
    double eps;
  };

  void find_readers() {
    for (size_t n = 0; n < from_.node_count(); ++n) {
      const NodeId id(static_cast<uint32_t>(n));
      if (from_.node(id).erased) continue;
      for (const Operand& operand : from_.node(id).args())
        for_each_value(operand, [&](ValueId read) { readers_[read.index()].push_back(id); });
    }
    for (ValueId id : from_.outputs())
      if (id.valid()) is_output_[id.index()] = true;
  }

  bool is_frozen(const Operand& operand) const { return operand.is_value() && frozen_[operand.as_value().index()]; }
  bool is_frozen_or_none(const Operand& operand) const { return operand.is_none() || is_frozen(operand); }
  static ValueId value_or_none(const Operand& operand) { return operand.is_value() ? operand.as_value() : ValueId(); }

  // What is inferred of well-formed operators does not fail: else nothing is packed.
  ValueId made(Result<ValueId, BuildError> result) {
    if (result) return *result;
    failed_ = true;
    return {};
  }

  ValueId add(const Node& like, OpId op, std::span<const Operand> operands, TensorMeta meta) {
    ResultMeta result;
    result.meta = std::move(meta);
    to_.set_new_state({});
    to_.set_new_recompute(0);
    return to_.node(to_.add_node(op, operands, {&result, 1}, values_.location(like))).result();
  }

  bool add_packed(const Node& node) {
    builder_.set_location(values_.location(node));
    if (node.op == ops::k_convolution) return ops_.convolution.valid() && add_convolution(node);
    if (!ops_.linear.valid()) return false;
    if (node.op == ops::k_mm) return add_linear(node, node.arg(0), node.arg(1), Operand::none());
    const bool plain = node.op == ops::k_addmm && is_one(node.arg(3)) && is_one(node.arg(4));
    return plain && add_linear(node, node.arg(1), node.arg(2), node.arg(0));
  }

  bool may_pack_convolution(const Node& node) const {
    return is_plain_convolution(from_, node) && is_frozen(node.arg(1)) && is_frozen_or_none(node.arg(2));
  }

  bool add_convolution(const Node& node) {
    if (!may_pack_convolution(node)) return false;
    ValueId weight = values_.at(node.arg(1).as_value()), bias = value_or_none(node.arg(2)), last = node.result();
    if (bias.valid()) bias = values_.at(bias);
    const std::optional<Norm> norm = norm_of(node.result());
    if (norm) {
      fold(*norm, weight, bias);
      absorb(*norm->node);
      last = norm->node->result();
    }
    const Activation* activation = nullptr;
    const Node* active = activation_of(last, activation);
    if (failed_) return true;
    const ValueId result = convolve(node, weight, bias, activation);
    put(last, result);
    if (active && !failed_) {
      absorb(*active);
      put(active->result(), values_.at(last));
    }
    return true;
  }

  void absorb(const Node& node) { absorbed_[from_.value(node.result()).definition.index()] = true; }

  void put(ValueId old, ValueId now) {
    ++packed_;
    if (!failed_ && !values_.put(old, now)) failed_ = true;
  }

  // The batch norm that alone reads `value`, if all that it multiplies and adds is frozen and computed by now.
  std::optional<Norm> norm_of(ValueId read) const {
    if (is_output_[read.index()] || readers_[read.index()].size() != 1) return std::nullopt;
    const Node& node = from_.node(readers_[read.index()][0]);
    if (node.op != ops::k_native_batch_norm || node.arg(0) != Operand::value(read) || node.arg(5).as_bool())
      return std::nullopt;
    for (size_t i = 1; i < 5; ++i) {
      if (!is_frozen_or_none(node.arg(i)) || (i > 2 && node.arg(i).is_none())) return std::nullopt;
      const ValueId operand = value_or_none(node.arg(i));
      if (operand.valid() && (!values_.has(operand) || !is_plain_f32(from_.meta(operand), 1))) return std::nullopt;
    }
    for (size_t i = 1; i < 3; ++i)
      if (!readers_[node.result(i).index()].empty() || is_output_[node.result(i).index()]) return std::nullopt;
    return Norm{&node,
                value_or_none(node.arg(1)),
                value_or_none(node.arg(2)),
                node.arg(3).as_value(),
                node.arg(4).as_value(),
                node.arg(7).as_float()};
  }

  // (w x + b - mean) * scale + shift, with scale = weight / sqrt(variance + eps), is a convolution with w * scale.
  void fold(const Norm& norm, ValueId& weight, ValueId& bias) {
    ValueId scale = made(ops::rsqrt(builder_, made(ops::add(builder_, values_.at(norm.variance), norm.eps))));
    if (failed_) return;
    if (norm.weight.valid()) scale = made(ops::mul(builder_, scale, values_.at(norm.weight)));
    if (failed_) return;
    const int64_t channels = to_.meta(scale).sizes[0];
    const ValueId column = made(ops::view(builder_, scale, {channels, 1, 1, 1}));
    if (failed_) return;
    weight = made(ops::mul(builder_, weight, column));
    const ValueId mean = values_.at(norm.mean);
    const ValueId centre = made(bias.valid() ? ops::sub(builder_, bias, mean) : ops::neg(builder_, mean));
    if (failed_) return;
    bias = made(ops::mul(builder_, centre, scale));
    if (norm.bias.valid() && !failed_) bias = made(ops::add(builder_, bias, values_.at(norm.bias)));
  }

  // The node that makes something of all of `value` before anybody else reads it.
  const Node* activation_of(ValueId read, const Activation*& found) const {
    if (is_output_[read.index()] || readers_[read.index()].empty()) return nullptr;
    const Node& node = from_.node(readers_[read.index()][0]);
    for (const Activation& activation : kActivations) {
      if (node.op != activation.op) continue;
      if (!activation.in_place && readers_[read.index()].size() != 1) return nullptr;
      found = &activation;
      return &node;
    }
    return nullptr;
  }

  static DimVector pair(const Operand& operand) {
    const std::span<const int64_t> given = operand.as_ints();
    return given.size() == 1 ? DimVector{given[0], given[0]} : DimVector(given);
  }

  ValueId convolve(const Node& node, ValueId weight, ValueId bias, const Activation* activation) {
    const DimVector stride = pair(node.arg(3)), padding = pair(node.arg(4)), dilation = pair(node.arg(5));
    const ValueId input = values_.at(node.arg(0).as_value());
    const Operand sizes = Operand::ints(to_.meta(input).sizes);
    TensorMeta packed = TensorMeta::fresh(to_.meta(weight).sizes, DType::kF32, {});
    packed.layout = Layout::kMkldnn;
    const Operand pack[] = {Operand::value(weight),
                            Operand::ints(padding),
                            Operand::ints(stride),
                            Operand::ints(dilation),
                            node.arg(8),
                            sizes};
    const ValueId by_blocks = add(node, ops_.pack_convolution, pack, packed);
    const Operand convolution[] = {Operand::value(input),
                                   Operand::value(by_blocks),
                                   bias.valid() ? Operand::value(bias) : Operand::none(),
                                   Operand::ints(padding),
                                   Operand::ints(stride),
                                   Operand::ints(dilation),
                                   node.arg(8),
                                   Operand::string(activation ? activation->name : "none"),
                                   Operand::scalars({}),
                                   Operand::string("")};
    return add(node, ops_.convolution, convolution,
               TensorMeta::fresh(from_.meta(node.result()).sizes, DType::kF32, {}, MemoryFormat::kChannelsLast));
  }

  bool add_linear(const Node& node, const Operand& input, const Operand& weight, const Operand& bias) {
    if (!input.is_value() || !is_frozen(weight)) return false;
    const TensorMeta& x = from_.meta(input.as_value());
    const TensorMeta& w = from_.meta(weight.as_value());
    if (!is_plain_f32(x, 2) || !is_plain_f32(w, 2) || !is_plain_f32(from_.meta(node.result()), 2)) return false;
    const int64_t rows = x.sizes[0], outs = w.sizes[1];
    if (rows * x.sizes[1] * outs < kFewestMultiplications) return false;
    if (!bias.is_none()) {
      if (!is_frozen(bias)) return false;
      const TensorMeta& b = from_.meta(bias.as_value());
      if (!is_plain_f32(b, 1) || b.sizes[0] != outs) return false;
    }
    ValueId by_outs = made(ops::t(builder_, values_.at(weight.as_value())));
    if (!failed_ && !to_.meta(by_outs).is_contiguous())
      by_outs = made(ops::clone(builder_, by_outs, MemoryFormat::kContiguous));
    if (failed_) return true;
    TensorMeta meta = TensorMeta::fresh(to_.meta(by_outs).sizes, DType::kF32, {});
    meta.layout = Layout::kMkldnn;
    const Operand pack[] = {Operand::value(by_outs), Operand::integer(rows)};
    const ValueId packed = add(node, ops_.pack_linear, pack, meta);
    const Operand linear[] = {Operand::value(values_.as_before(input.as_value())),
                              Operand::value(packed),
                              bias.is_none() ? Operand::none() : Operand::value(values_.at(bias.as_value())),
                              Operand::string("none"),
                              Operand::scalars({}),
                              Operand::string("")};
    put(node.result(),
        add(node, ops_.linear, linear, TensorMeta::fresh(from_.meta(node.result()).sizes, DType::kF32, {})));
    return true;
  }

  const Graph& from_;
  const PackedOps ops_;
  const std::vector<bool> frozen_;
  Graph to_{"packed"};
  Builder builder_;
  Relayout values_;
  std::vector<std::vector<NodeId>> readers_;  // by value of the original, in program order
  std::vector<bool> is_output_;
  std::vector<bool> absorbed_;  // by node of the original
  size_t packed_ = 0;
  bool failed_ = false;
};

}  // namespace

std::optional<ChangedGraph> pack_weights(const Graph& graph, const std::vector<bool>& frozen_inputs,
                                         const PackedOps& ops, const InferEnvironment& environment) {
  return Packer(graph, frozen_inputs, ops, environment).run();
}

}  // namespace framejit::graph
