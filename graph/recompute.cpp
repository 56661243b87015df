#include "graph/recompute.h"

#include <algorithm>

#include "graph/alias.h"

namespace framejit::graph {

std::optional<std::string> why_not_recompute(const Graph& graph, NodeId first, bool same_random) {
  const AliasClasses aliases(graph);
  std::vector<bool> outside(aliases.size());
  for (size_t i = 0; i < graph.value_count(); ++i) {
    const ValueId id(i);
    const NodeId definition = graph.value(id).definition;
    if (!definition.valid() || definition < first || aliases.is_constant(id)) outside[aliases.of(id)] = true;
  }
  std::vector<ValueId> written;
  for (size_t n = first.index(); n < graph.node_count(); ++n) {
    const Node& node = graph.node(NodeId(n));
    if (node.erased) continue;
    const OpInfo& info = op_info(node.op);
    if (info.has(kOpSideEffect) && info.name != "framejit::constant") return info.name + " may have effects";
    if (info.has(kOpRandom)) {
      const auto args = node.args();
      const bool own =
          std::any_of(args.begin(), args.end(), [](const Operand& o) { return o.is(Operand::Kind::kConst); });
      if (own || !same_random) return info.name + " draws other random numbers the second time";
    }
    written_values(graph, node, written);
    for (ValueId id : written)
      if (outside[aliases.of(id)]) return info.name + " writes a tensor from outside";
  }
  return std::nullopt;
}

}  // namespace framejit::graph
