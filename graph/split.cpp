#include "graph/split.h"

#include <algorithm>

#include "graph/node_copy.h"

namespace framejit::graph {
namespace {

class Splitter {
 public:
  Splitter(const Graph& whole, const SplitRequest& request)
      : whole_(whole),
        request_(request),
        split_{Graph(request.name), {}, {}},
        copy_(whole, split_.graph, request.locations) {}

  Split run() {
    // Captured values come first, so they are looked for before anything is built.
    for_each_copied([&](const Node& node) {
      for (const Operand& operand : node.args()) for_each_value(operand, [&](ValueId value) { note_captured(value); });
    });
    for (ValueId value : request_.outputs)
      if (value.valid()) note_captured(value);
    for (ValueId value : request_.parameters) copy_.add_input(value);
    for_each_copied([&](const Node& node) { copy_.add(node); });
    std::vector<ValueId> outputs;
    for (ValueId value : request_.outputs) {
      split_.outputs.push_back(value.valid() ? copy_.at(value) : ValueId());
      if (value.valid()) outputs.push_back(split_.outputs.back());
    }
    split_.graph.set_outputs(outputs);
    return std::move(split_);
  }

 private:
  bool is_parameter(ValueId value) const {
    return std::find(request_.parameters.begin(), request_.parameters.end(), value) != request_.parameters.end();
  }

  template <class F>
  void for_each_copied(F&& f) {
    for (size_t n = request_.first_node; n < whole_.node_count(); ++n) {
      const Node& node = whole_.node(NodeId(n));
      if (!node.erased && !(node.result_count > 0 && is_parameter(node.result()))) f(node);
    }
  }

  void note_captured(ValueId value) {
    const bool before = value.index() < request_.first_value || whole_.value(value).is_input();
    if (!before || copy_.has(value) || is_parameter(value)) return;
    copy_.add_input(value);
    split_.captured.push_back(value);
  }

  const Graph& whole_;
  const SplitRequest& request_;
  Split split_;
  NodeCopy copy_;
};

}  // namespace

Split split_off(const Graph& whole, const SplitRequest& request) { return Splitter(whole, request).run(); }

}  // namespace framejit::graph
