#include "graph/passes/rematerialize.h"

#include <set>

#include "graph/alias.h"
#include "graph/failure.h"
#include "graph/node_copy.h"
#include "graph/passes/min_cut.h"

namespace framejit::graph {
namespace {

// To copy less costs nothing to speak of.
constexpr int64_t kMostBytesCopied = 64 * 1024;

int64_t bytes_of(const TensorMeta& meta) { return meta.numel() * itemsize(meta.dtype); }

bool is_repeatable_node(const Graph& graph, const Node& node, IsCheap is_cheap) {
  constexpr uint32_t kNever = kOpMutates | kOpInPlace | kOpMetaInPlace | kOpRandom | kOpDataDependent | kOpSideEffect |
                              kOpUninitialized | kOpWritesStatistics;
  const OpInfo& info = op_info(node.op);
  if (node.erased || !node.state.empty() || info.schema.empty() || (info.flags & kNever) || may_raise(graph, node))
    return false;
  for (size_t i = 0; i < node.result_count; ++i)
    if (graph.value(node.result(i)).result.kind != ResultKind::kTensor) return false;
  return info.has(kOpView) || node.recompute != 0 || is_cheap(graph, node);
}

// By node: whether a checkpointed function gave a result of it to what is outside of the call. That is kept, or the
// backward would compute one call after the other from the inputs of the first, and hold all of them at once.
std::vector<bool> given_by_checkpoints(const Graph& graph) {
  std::vector<bool> given(graph.node_count());
  for (size_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node(NodeId(n));
    if (node.erased) continue;
    for (const Operand& operand : node.args())
      for_each_value(operand, [&](ValueId id) {
        const NodeId origin = graph.value(id).definition;
        if (!origin.valid()) return;
        const uint32_t call = graph.node(origin).recompute;
        if (call != 0 && call != node.recompute) given[origin.index()] = true;
      });
  }
  return given;
}

class Cut {
 public:
  Cut(const Rematerialization& forward, std::span<const ValueId> needed, std::span<const ValueId> seen, int64_t small)
      : forward_(forward),
        graph_(forward.graph()),
        small_(small),
        seen_(graph_.value_count()),
        needed_(graph_.value_count()),
        places_(graph_.value_count(), kNone) {
    for (ValueId id : seen) seen_[forward_.aliases().of(id)] = true;
    for (ValueId id : needed) needed_[id.index()] = true;
    network_.add_place(), network_.add_place();
  }

  std::vector<ValueId> run() {
    find_what_can_be_had();
    for (size_t i = 0; i < needed_.size(); ++i)
      if (needed_[i] && !is_fixed(value(i))) network_.connect(place_of(value(i)) + 1, kSink, FlowNetwork::kUnlimited);
    for (size_t next = 0; next < pending_.size(); ++next) connect_to_origin(pending_[next]);
    const std::vector<bool> below = network_.sink_side(kSource, kSink);
    std::vector<ValueId> kept;
    for (size_t i = 0; i < needed_.size(); ++i) {
      const uint32_t place = places_[i];
      const bool cut = place != kNone && !below[place] && below[place + 1];
      if (cut || (needed_[i] && is_fixed(value(i)))) kept.push_back(value(i));
    }
    return kept;
  }

 private:
  static constexpr uint32_t kNone = 0xffffffffu;
  static constexpr uint32_t kSource = 0, kSink = 1;

  static ValueId value(size_t index) { return ValueId(static_cast<uint32_t>(index)); }

  bool is_seen(ValueId id) const {
    const AliasClasses& aliases = forward_.aliases();
    return aliases.is_input(id) || aliases.is_constant(id) || seen_[aliases.of(id)];
  }

  // It is kept whatever else is.
  bool is_fixed(ValueId id) const {
    return needed_[id.index()] && (is_seen(id) || forward_.is_written(id) || bytes_of(graph_.meta(id)) <= small_);
  }

  bool may_be_kept(ValueId id) const {
    if (forward_.is_written(id)) return false;
    if (is_fixed(id) || !is_seen(id)) return true;
    const TensorMeta& meta = graph_.meta(id);
    return graph_.value(id).is_input() && bytes_of(meta) <= kMostBytesCopied && meta.layout == Layout::kStrided &&
           meta.is_non_overlapping_and_dense();
  }

  // In the order of the forward: what a node reads is known before it.
  void find_what_can_be_had() {
    can_be_had_.resize(graph_.value_count());
    for (size_t i = 0; i < can_be_had_.size(); ++i) can_be_had_[i] = may_be_kept(value(i)) || can_be_repeated(value(i));
  }

  bool can_be_repeated(ValueId id) const {
    if (!forward_.is_repeatable(id)) return false;
    bool possible = true;
    for (const Operand& operand : forward_.origin(id).args())
      for_each_value(operand, [&](ValueId read) { possible &= can_be_had_[read.index()]; });
    return possible;
  }

  // Two places for each value, and the way from one to the other is keeping it.
  uint32_t place_of(ValueId id) {
    uint32_t& place = places_[id.index()];
    if (place != kNone) return place;
    place = network_.add_place();
    network_.add_place();
    network_.connect(place, place + 1, may_be_kept(id) ? bytes_of(graph_.meta(id)) + 1 : FlowNetwork::kUnlimited);
    pending_.push_back(id);
    return place;
  }

  void connect_to_origin(ValueId id) {
    const uint32_t place = place_of(id);
    if (!can_be_repeated(id)) return network_.connect(kSource, place, FlowNetwork::kUnlimited);
    for (const Operand& operand : forward_.origin(id).args())
      for_each_value(operand, [&](ValueId read) {
        if (!is_fixed(read)) network_.connect(place_of(read) + 1, place, FlowNetwork::kUnlimited);
      });
  }

  const Rematerialization& forward_;
  const Graph& graph_;
  const int64_t small_;
  std::vector<bool> seen_;        // by alias class
  std::vector<bool> needed_;      // by value
  std::vector<bool> can_be_had_;  // by value
  std::vector<uint32_t> places_;  // by value, of those in the network
  std::vector<ValueId> pending_;  // whose origin is not in the network
  FlowNetwork network_;
};

class Rematerializer {
 public:
  Rematerializer(const Rematerialization& forward, const Graph& backward, std::span<const ValueId> needed)
      : forward_(forward),
        backward_(backward),
        needed_(needed),
        made_{Graph(backward.name()), {}},
        again_(forward.graph(), made_.graph, false),
        copy_(backward, made_.graph, true) {}

  std::optional<Rematerialized> run(std::span<const ValueId> kept, std::span<const ValueId> values) {
    for (ValueId id : kept) again_.add_input(id);
    for (ValueId input : backward_.inputs().subspan(needed_.size())) copy_.add_input(input);
    for (size_t n = 0; n < backward_.node_count(); ++n) {
      const Node& node = backward_.node(NodeId(static_cast<uint32_t>(n)));
      if (node.erased) continue;
      bool there = true;
      for (const Operand& operand : node.args()) for_each_value(operand, [&](ValueId id) { there &= provide(id); });
      if (!there) return std::nullopt;
      copy_.add(node);
    }
    std::vector<ValueId> outputs;
    for (ValueId id : values) {
      if (id.valid() && !provide(id)) return std::nullopt;
      made_.values.push_back(id.valid() ? copy_.at(id) : ValueId());
      if (id.valid()) outputs.push_back(made_.values.back());
    }
    made_.graph.set_outputs(outputs);
    return std::move(made_);
  }

 private:
  // A value of the backward that a node is about to read.
  bool provide(ValueId id) {
    if (copy_.has(id)) return true;
    const ValueId origin = needed_[backward_.value(id).index];
    if (!again_.has(origin) && !compute(origin)) return false;
    copy_.map(id, again_.at(origin));
    return true;
  }

  // With all that it takes, in the order of the forward.
  bool compute(ValueId wanted) {
    std::set<NodeId> nodes;
    std::vector<ValueId> pending = {wanted};
    while (!pending.empty()) {
      const ValueId id = pending.back();
      pending.pop_back();
      if (again_.has(id)) continue;
      if (!forward_.is_repeatable(id)) return false;
      if (!nodes.insert(forward_.graph().value(id).definition).second) continue;
      for (const Operand& operand : forward_.origin(id).args())
        for_each_value(operand, [&](ValueId read) { pending.push_back(read); });
    }
    for (NodeId id : nodes) again_.add(forward_.graph().node(id));
    return true;
  }

  const Rematerialization& forward_;
  const Graph& backward_;
  std::span<const ValueId> needed_;
  Rematerialized made_;
  NodeCopy again_;  // of the forward
  NodeCopy copy_;   // of the backward
};

}  // namespace

Rematerialization::Rematerialization(const Graph& forward, IsCheap is_cheap)
    : graph_(forward), aliases_(forward), written_(forward.value_count()), repeatable_(forward.node_count()) {
  std::vector<ValueId> written;
  for (size_t n = 0; n < repeatable_.size(); ++n) {
    written_values(forward, forward.node(NodeId(n)), written);
    for (ValueId id : written) written_[aliases_.of(id)] = true;
  }
  const std::vector<bool> given = given_by_checkpoints(forward);
  for (size_t n = 0; n < repeatable_.size(); ++n) {
    const Node& node = forward.node(NodeId(n));
    repeatable_[n] = !given[n] && reads_what_stays(node) && is_repeatable_node(forward, node, is_cheap);
  }
}

bool Rematerialization::reads_what_stays(const Node& node) const {
  bool stays = true;
  for (const Operand& operand : node.args()) for_each_value(operand, [&](ValueId id) { stays &= !is_written(id); });
  return stays;
}

std::vector<ValueId> Rematerialization::values_to_keep(std::span<const ValueId> needed, std::span<const ValueId> seen,
                                                       int64_t small) const {
  return Cut(*this, needed, seen, small).run();
}

std::optional<Rematerialized> Rematerialization::over(const Graph& backward, std::span<const ValueId> needed,
                                                      std::span<const ValueId> kept,
                                                      std::span<const ValueId> values) const {
  return Rematerializer(*this, backward, needed).run(kept, values);
}

}  // namespace framejit::graph
