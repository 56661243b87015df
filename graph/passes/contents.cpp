#include "graph/passes/contents.h"

#include <algorithm>
#include <string>

#include "graph/builder.h"
#include "graph/generated/builders.h"
#include "graph/generated/op_ids.h"
#include "graph/node_copy.h"

namespace framejit::graph {
namespace {

// aten::add.Tensor for aten::add_.Tensor, with the same arguments. Invalid if there is none.
OpId out_of_place(const OpInfo& info) {
  const size_t end = std::min(info.name.find('.'), info.name.size());
  if (!info.has(kOpInPlace) || info.has(kOpMetaInPlace) || info.name[end - 1] != '_') return {};
  const OpId found = find_op(std::string(info.name).erase(end - 1, 1));
  if (!found.valid()) return {};
  const auto same = [](const SchemaArg& a, const SchemaArg& b) { return a.name == b.name && a.type == b.type; };
  const std::vector<SchemaArg>&a = info.parsed.args, &b = op_info(found).parsed.args;
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same) ? found : OpId();
}

bool is_same_tensor(const TensorMeta& a, const TensorMeta& b) {
  return a.sizes == b.sizes && a.strides == b.strides && a.dtype == b.dtype && a.device == b.device &&
         a.layout == b.layout;
}

}  // namespace

bool is_batch_norm_of_batch(const Node& node) {
  const Operand* training = node.op == ops::k_native_batch_norm ? &node.arg(5) : nullptr;
  return training && training->is(Operand::Kind::kBool) && training->as_bool();
}

namespace {

class Copier {
 public:
  Copier(const Graph& graph, const AliasClasses& aliases, HasKernel has_kernel)
      : from_(graph),
        aliases_(aliases),
        has_kernel_(has_kernel),
        made_{Graph(graph.name()), {}, std::vector<bool>(aliases.size())},
        copy_(graph, made_.graph, false),
        builder_(made_.graph),
        names_(aliases.size()) {}

  Contents run() {
    find_names();
    for (ValueId input : from_.inputs()) copy_.add_input(input);
    for (size_t n = 0; n < from_.node_count(); ++n) {
      const Node& node = from_.node(NodeId(static_cast<uint32_t>(n)));
      if (!node.erased) add(node);
    }
    for (uint32_t i = 0; i < from_.value_count(); ++i) {
      const bool is_there = copy_.has(ValueId(i));
      made_.at_end.push_back(is_there ? copy_.at(ValueId(i)) : ValueId());
    }
    return std::move(made_);
  }

 private:
  struct Names {
    std::vector<ValueId> all;  // of one alias class
    bool is_one_tensor = true;
  };

  void find_names() {
    for (uint32_t i = 0; i < from_.value_count(); ++i) {
      const ValueId id(i);
      Names& names = names_[aliases_.of(id)];
      const bool is_same = from_.value(id).result.alias == AliasKind::kSame;
      names.is_one_tensor = names.is_one_tensor && (names.all.empty() || is_same);
      names.all.push_back(id);
    }
  }

  void add(const Node& node) {
    made_.graph.set_new_recompute(node.recompute);
    made_.graph.set_new_state(node.state);
    written_values(from_, node, written_);
    if (written_.empty() && is_copy(node)) return copy_.map(node.result(), copy_.at(node.arg(0).as_value()));
    if (!written_.empty() && add_out_of_place(node)) return;
    copy_.add(node);
    add_batch_norm(node);
    for (ValueId id : written_) forget(aliases_.of(id));
  }

  // Into memory of its own, laid out as the original.
  bool is_copy(const Node& node) const {
    return node.op == ops::k_clone && node.recompute == 0 && node.state.empty() &&
           is_same_tensor(from_.meta(node.result()), from_.meta(node.arg(0).as_value()));
  }

  bool add_out_of_place(const Node& node) {
    if (node.result_count != 1 || !node.arg(0).is_value()) return false;
    const ValueId self = node.arg(0).as_value();
    const uint32_t of = aliases_.of(self);
    const bool is_own = names_[of].is_one_tensor && !aliases_.is_input(self) && !aliases_.is_constant(self);
    const OpId op = out_of_place(op_info(node.op));
    if (!is_own || made_.unknown[of] || !op.valid()) return false;
    std::vector<std::vector<ValueId>> lists;
    const auto made = builder_.add(op, copy_.operands_of(node, lists));
    if (!made || made_.graph.node(*made).result_count != 1) return false;
    const ValueId result = made_.graph.node(*made).result();
    if (!is_same_tensor(made_.graph.meta(result), from_.meta(self))) return false;
    for (ValueId id : names_[of].all) copy_.map(id, result);
    return true;
  }

  // native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps) -> (result, mean, scale)
  void add_batch_norm(const Node& node) {
    if (!is_batch_norm_of_batch(node) || !has_kernel_(from_, node)) return;
    const auto operand = [&](size_t i) {
      return node.arg(i).is_value() ? copy_.at(node.arg(i).as_value()) : ValueId();
    };
    const ValueId mean = copy_.at(node.result(1)), scale = copy_.at(node.result(2));
    const auto made = normalised(operand(0), mean, scale, operand(1), operand(2));
    if (made && is_same_tensor(made_.graph.meta(*made), from_.meta(node.result(0)))) copy_.map(node.result(0), *made);
  }

  // As the kernel computes it (codegen/kernels/written_out.cpp), to the bit.
  Result<ValueId, BuildError> normalised(ValueId input, ValueId mean, ValueId scale, ValueId weight, ValueId bias) {
    using Made = Result<ValueId, BuildError>;
    DimVector sizes(made_.graph.meta(input).sizes.size() - 1, 1);
    sizes[0] = made_.graph.meta(mean).numel();
    const auto with_channels = [&](auto compute, const Made& value, const Made& channels) -> Made {
      if (!value || !channels) return value ? channels : value;
      const Made beside = ops::view(builder_, *channels, Ints(std::span<const int64_t>(sizes)));
      return beside ? compute(*value, *beside) : beside;
    };
    const auto subtract = [&](ValueId a, ValueId b) { return ops::sub(builder_, a, b); };
    const auto multiply = [&](ValueId a, ValueId b) { return ops::mul(builder_, a, b); };
    const auto add = [&](ValueId a, ValueId b) { return ops::add(builder_, a, b); };
    const Made centred = with_channels(subtract, input, mean);
    const Made scaled = with_channels(multiply, centred, weight.valid() ? multiply(scale, weight) : Made(scale));
    return bias.valid() ? with_channels(add, scaled, bias) : scaled;
  }

  void forget(uint32_t of) {
    made_.unknown[of] = true;
    for (ValueId id : names_[of].all)
      if (copy_.has(id)) copy_.add_input(id);
  }

  const Graph& from_;
  const AliasClasses& aliases_;
  const HasKernel has_kernel_;
  Contents made_;
  NodeCopy copy_;
  Builder builder_;
  std::vector<Names> names_;  // by alias class
  std::vector<ValueId> written_;
};

}  // namespace

Contents contents_of(const Graph& graph, const AliasClasses& aliases, HasKernel has_kernel) {
  return Copier(graph, aliases, has_kernel).run();
}

}  // namespace framejit::graph
