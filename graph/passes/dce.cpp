#include "graph/passes/dce.h"

#include <vector>

#include "graph/alias.h"
#include "graph/failure.h"

namespace framejit::graph {
namespace {

constexpr uint32_t kEffects = kOpRandom | kOpSideEffect | kOpDataDependent;

// One walk backwards: program order is straight, so what a node's results and writes are good for is known once all
// later nodes are.
class DeadCode {
 public:
  explicit DeadCode(Graph& graph)
      : graph_(graph), aliases_(graph), live_(graph.value_count(), false), read_(graph.value_count(), false) {}

  size_t run() {
    for (ValueId id : graph_.outputs())
      if (id.valid()) use(id);
    size_t erased = 0;
    for (size_t i = graph_.node_count(); i-- > 0;) {
      const Node& node = graph_.node(NodeId(i));
      if (node.erased) continue;
      if (is_live(node)) {
        for (const Operand& operand : node.args()) for_each_value(operand, [&](ValueId id) { use(id); });
      } else {
        graph_.erase(NodeId(i));
        ++erased;
      }
    }
    return erased;
  }

 private:
  void use(ValueId id) {
    live_[id.index()] = true;
    read_[aliases_.of(id)] = true;
  }

  bool is_live(const Node& node) {
    if ((op_info(node.op).flags & kEffects) || raises_on_data(graph_, node)) return true;
    for (uint32_t r = 0; r < node.result_count; ++r)
      if (live_[node.result(r).index()]) return true;
    written_values(graph_, node, written_);
    for (ValueId id : written_)
      if (aliases_.escapes(id) || read_[aliases_.of(id)]) return true;
    return false;
  }

  Graph& graph_;
  AliasClasses aliases_;
  std::vector<bool> live_;  // by value: some live node reads it
  std::vector<bool> read_;  // by alias class: some live node later in the program reads a member
  std::vector<ValueId> written_;
};

}  // namespace

size_t eliminate_dead_code(Graph& graph) { return DeadCode(graph).run(); }

}  // namespace framejit::graph
