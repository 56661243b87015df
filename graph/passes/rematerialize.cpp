#include "graph/passes/rematerialize.h"

#include <set>

#include "graph/failure.h"
#include "graph/generated/op_ids.h"
#include "graph/node_copy.h"
#include "graph/passes/min_cut.h"
#include "graph/passes/schedule.h"

namespace framejit::graph {
namespace {

// To copy less costs nothing to speak of.
constexpr int64_t kMostBytesCopied = 64 * 1024;

int64_t bytes_of(const TensorMeta& meta) { return meta.numel() * itemsize(meta.dtype); }

bool is_repeatable_node(const Graph& graph, const Node& node, HasKernel is_cheap) {
  constexpr uint32_t kNever =
      kOpMutates | kOpInPlace | kOpMetaInPlace | kOpRandom | kOpDataDependent | kOpSideEffect | kOpUninitialized;
  const OpInfo& info = op_info(node.op);
  if (!node.state.empty() || info.schema.empty() || (info.flags & kNever) || may_raise(graph, node)) return false;
  if (info.has(kOpWritesStatistics) && (node.op != ops::k_native_batch_norm || is_batch_norm_of_batch(node)))
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

// The cut is between contents; what is kept of one is a value of the forward that holds it at its end.
class Cut {
 public:
  Cut(const Rematerialization& forward, std::span<const ValueId> needed, std::span<const ValueId> seen, int64_t small)
      : forward_(forward),
        graph_(forward.contents()),
        small_(small),
        seen_(forward.forward().value_count()),
        is_needed_(forward.forward().value_count()),
        needed_(needed.begin(), needed.end()),
        places_(graph_.value_count(), kNone) {
    for (ValueId id : seen) seen_[forward_.aliases().of(id)] = true;
    for (ValueId id : needed) is_needed_[id.index()] = true;
    network_.add_place(), network_.add_place();
  }

  std::vector<ValueId> run() {
    find_holders();
    find_what_can_be_had();
    for (ValueId id : needed_) {
      const ValueId content = forward_.content_of(id);
      if (!is_fixed(content)) network_.connect(place_of(content) + 1, kSink, FlowNetwork::kUnlimited);
    }
    for (size_t next = 0; next < pending_.size(); ++next) connect_to_origin(pending_[next]);
    return kept(network_.sink_side(kSource, kSink));
  }

 private:
  static constexpr uint32_t kNone = 0xffffffffu;
  static constexpr uint32_t kSource = 0, kSink = 1;

  // A stage is what lies between two operators that are not computed again. The backward goes through them from the
  // last to the first. A value that is computed from one of an earlier stage, which the backward reads itself, but only
  // when it gets there, would have that one computed too early and held until then: it is kept instead.
  struct Stages {
    uint32_t last_read = kNone, made = kNone;
    bool operator<(const Stages& other) const {
      return last_read != other.last_read ? last_read < other.last_read : made < other.made;
    }
  };

  // What a value of the forward is to the content that it holds, the best last.
  enum class Holder : uint8_t { kNone, kCopiedInput, kOwn, kNeeded, kFixed };

  bool is_seen(ValueId id) const {
    const AliasClasses& aliases = forward_.aliases();
    return aliases.is_input(id) || aliases.is_constant(id) || seen_[aliases.of(id)];
  }

  Holder holder_kind(ValueId id) const {
    const TensorMeta& meta = forward_.forward().meta(id);
    const bool is_written = forward_.is_written(id);
    if (is_needed_[id.index()])
      return is_seen(id) || is_written || bytes_of(meta) <= small_ ? Holder::kFixed : Holder::kNeeded;
    const bool is_whole = forward_.forward().value(id).result.alias == AliasKind::kFresh;
    if (is_written) return is_whole && !is_seen(id) ? Holder::kOwn : Holder::kNone;
    if (!is_seen(id)) return Holder::kOwn;
    const bool is_copied = forward_.forward().value(id).is_input() && bytes_of(meta) <= kMostBytesCopied &&
                           meta.layout == Layout::kStrided && meta.is_non_overlapping_and_dense();
    return is_copied ? Holder::kCopiedInput : Holder::kNone;
  }

  void find_holders() {
    holders_.resize(graph_.value_count());
    holder_kinds_.resize(graph_.value_count(), Holder::kNone);
    for (uint32_t i = 0; i < is_needed_.size(); ++i) {
      const ValueId id(i), content = forward_.content_of(id);
      if (!content.valid()) continue;
      const Holder kind = holder_kind(id);
      if (kind <= holder_kinds_[content.index()]) continue;
      holder_kinds_[content.index()] = kind;
      holders_[content.index()] = id;
    }
  }

  // It is kept whatever else is.
  bool is_fixed(ValueId content) const { return holder_kinds_[content.index()] == Holder::kFixed; }
  bool may_be_kept(ValueId content) const { return holder_kinds_[content.index()] != Holder::kNone; }

  bool is_needed(ValueId content) const { return holder_kinds_[content.index()] == Holder::kNeeded; }

  // In the order of the forward: what a node reads is known before it.
  void find_what_can_be_had() {
    find_stages();
    can_be_had_.resize(graph_.value_count());
    can_be_repeated_.resize(graph_.value_count());
    std::vector<Stages> waits(graph_.value_count());
    for (uint32_t i = 0; i < can_be_had_.size(); ++i) {
      can_be_repeated_[i] = can_be_repeated(ValueId(i), waits);
      can_be_had_[i] = may_be_kept(ValueId(i)) || can_be_repeated_[i];
    }
  }

  bool can_be_repeated(ValueId content, std::vector<Stages>& waits) const {
    if (!forward_.is_repeatable(content)) return false;
    bool possible = true;
    Stages first;
    for (const Operand& operand : forward_.origin(content).args())
      for_each_value(operand, [&](ValueId read) {
        possible &= can_be_had_[read.index()];
        first = std::min(first, waits[read.index()]);
        if (is_needed(read) && can_be_repeated_[read.index()]) first = std::min(first, stages_[read.index()]);
      });
    const uint32_t now = stages_[content.index()].made;
    if (is_needed(content) && first < Stages{now, now}) return false;
    waits[content.index()] = first;
    return possible;
  }

  void find_stages() {
    stages_.resize(graph_.value_count());
    uint32_t now = 0;
    for (uint32_t n = 0; n < graph_.node_count(); ++n) {
      const Node& node = graph_.node(NodeId(n));
      for (const Operand& operand : node.args())
        for_each_value(operand, [&](ValueId read) { stages_[read.index()].last_read = now; });
      bool ends = false;
      for (uint32_t i = 0; i < node.result_count; ++i) {
        stages_[node.result(i).index()] = {now, now};
        ends = ends || (!forward_.is_repeatable(node.result(i)) && bytes_of(graph_.meta(node.result(i))) > small_);
      }
      now += ends;
    }
  }

  // Two places for each content, and the way from one to the other is keeping it.
  uint32_t place_of(ValueId content) {
    uint32_t& place = places_[content.index()];
    if (place != kNone) return place;
    place = network_.add_place();
    network_.add_place();
    const int64_t cost = may_be_kept(content) ? bytes_of(graph_.meta(content)) + 1 : FlowNetwork::kUnlimited;
    network_.connect(place, place + 1, cost);
    pending_.push_back(content);
    return place;
  }

  void connect_to_origin(ValueId content) {
    const uint32_t place = place_of(content);
    if (!can_be_repeated_[content.index()]) return network_.connect(kSource, place, FlowNetwork::kUnlimited);
    for (const Operand& operand : forward_.origin(content).args())
      for_each_value(operand, [&](ValueId read) {
        if (!is_fixed(read)) network_.connect(place_of(read) + 1, place, FlowNetwork::kUnlimited);
      });
  }

  std::vector<ValueId> kept(const std::vector<bool>& below) const {
    std::set<ValueId> kept;
    for (ValueId id : needed_)
      if (holder_kind(id) == Holder::kFixed) kept.insert(id);
    for (ValueId content : pending_) {
      const uint32_t place = places_[content.index()];
      if (!below[place] && below[place + 1]) kept.insert(holders_[content.index()]);
    }
    return {kept.begin(), kept.end()};
  }

  const Rematerialization& forward_;
  const Graph& graph_;  // of contents, as all below whose comment does not say otherwise
  const int64_t small_;
  std::vector<bool> seen_;             // by alias class of the forward
  std::vector<bool> is_needed_;        // by value of the forward
  const std::vector<ValueId> needed_;  // of the forward
  std::vector<ValueId> holders_;       // of the forward, by content
  std::vector<Holder> holder_kinds_;
  std::vector<bool> can_be_had_, can_be_repeated_;
  std::vector<Stages> stages_;
  std::vector<uint32_t> places_;  // of those in the network
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
        again_(forward.contents(), made_.graph, false),
        copy_(backward, made_.graph, true) {}

  std::optional<Rematerialized> run(std::span<const ValueId> kept, std::span<const ValueId> values) {
    for (ValueId id : kept) again_.map(forward_.content_of(id), made_.graph.add_input(forward_.forward().meta(id)));
    for (ValueId input : backward_.inputs().subspan(needed_.size())) copy_.add_input(input);
    for (NodeId id : order(values)) {
      const Node& node = backward_.node(id);
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
  std::vector<NodeId> order(std::span<const ValueId> values) const {
    std::vector<ValueId> stays(values.begin(), values.end());
    for (size_t i = 0; i < backward_.inputs().size(); ++i)
      if (i >= needed_.size() || forward_.aliases().is_input(needed_[i])) stays.push_back(backward_.inputs()[i]);
    return schedule(backward_, stays, forward_.is_cheap());
  }

  // A value of the backward that a node is about to read.
  bool provide(ValueId id) {
    if (copy_.has(id)) return true;
    const ValueId content = forward_.content_of(needed_[backward_.value(id).index]);
    if (!again_.has(content) && !compute(content)) return false;
    copy_.map(id, again_.at(content));
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
      if (!nodes.insert(forward_.contents().value(id).definition).second) continue;
      for (const Operand& operand : forward_.origin(id).args())
        for_each_value(operand, [&](ValueId read) { pending.push_back(read); });
    }
    for (NodeId id : nodes) again_.add(forward_.contents().node(id));
    return true;
  }

  const Rematerialization& forward_;
  const Graph& backward_;
  std::span<const ValueId> needed_;
  Rematerialized made_;
  NodeCopy again_;  // of contents of the forward
  NodeCopy copy_;   // of the backward
};

}  // namespace

Rematerialization::Rematerialization(const Graph& forward, HasKernel is_cheap)
    : forward_(forward), is_cheap_(is_cheap), aliases_(forward), contents_(contents_of(forward, aliases_, is_cheap)) {
  repeatable_.resize(contents().node_count());
  const std::vector<bool> given = given_by_checkpoints(contents());
  for (size_t n = 0; n < repeatable_.size(); ++n)
    repeatable_[n] = !given[n] && is_repeatable_node(contents(), contents().node(NodeId(n)), is_cheap);
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
