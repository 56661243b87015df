#include "graph/constant_slice.h"

#include "graph/alias.h"

namespace framejit::graph {
namespace {

// An operator that may raise must raise where it stands, not where its result is asked for.
constexpr uint32_t kNotConstant = kOpRandom | kOpUninitialized | kOpSideEffect | kOpDataDependent | kOpMayRaise;

// One walk backwards, as for dead code: writes through an alias count where somebody reads later.
class ConstantSlice {
 public:
  explicit ConstantSlice(const Graph& graph)
      : graph_(graph), aliases_(graph), used_(graph.value_count(), false), read_(graph.value_count(), false) {}

  std::optional<std::vector<bool>> run(ValueId value) {
    std::vector<bool> slice(graph_.node_count(), false);
    if (!use(value)) return std::nullopt;
    for (size_t i = graph_.node_count(); i-- > 0;) {
      const Node& node = graph_.node(NodeId(i));
      if (node.erased || !takes_part(node)) continue;
      if (!is_constant(node)) return std::nullopt;
      slice[i] = true;
      bool known = true;
      for (const Operand& operand : node.args()) for_each_value(operand, [&](ValueId id) { known &= use(id); });
      if (!known) return std::nullopt;
    }
    return slice;
  }

 private:
  // False for an input.
  bool use(ValueId id) {
    used_[id.index()] = true;
    read_[aliases_.of(id)] = true;
    return !graph_.value(id).is_input();
  }

  bool takes_part(const Node& node) {
    for (uint32_t r = 0; r < node.result_count; ++r)
      if (used_[node.result(r).index()]) return true;
    written_values(graph_, node, written_);
    for (ValueId id : written_)
      if (read_[aliases_.of(id)]) return true;
    return false;
  }

  static bool is_constant(const Node& node) {
    static const OpId constant = intern_op("framejit::constant");
    const OpInfo& info = op_info(node.op);
    return node.op == constant || (info.has(kOpNative) && !(info.flags & kNotConstant));
  }

  const Graph& graph_;
  AliasClasses aliases_;
  std::vector<bool> used_;  // by value
  std::vector<bool> read_;  // by alias class
  std::vector<ValueId> written_;
};

}  // namespace

std::optional<std::vector<bool>> constant_slice(const Graph& graph, ValueId value) {
  return ConstantSlice(graph).run(value);
}

}  // namespace framejit::graph
