#include "runtime/torch/history_blocks.h"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "runtime/torch/history.h"
#include "runtime/torch/history_ends.h"
#include "runtime/torch/node_pointer.h"

namespace framejit::torchlib {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;
using torch::autograd::impl::gradient_edge;

namespace {

// Never runs: the engine takes what would come here.
class CutEnd final : public Node {
 public:
  explicit CutEnd(const Edge& beyond) : beyond(beyond) {
    add_metadata_like(*this, beyond.function->input_metadata(beyond.input_nr), true);
  }
  std::string name() const override { return "CutEnd"; }
  variable_list apply(variable_list&&) override { TORCH_CHECK(false, "framejit: a backward runs past a cut"); }

  const Edge beyond;
};

// Which results reach an operation, a bit for each.
using Reach = std::vector<uint64_t>;

struct Operation {
  Node* node;
  uint32_t block = 0;
};

struct End {
  BlockExit::To to;
  uint32_t index;
};

class Cutter {
 public:
  explicit Cutter(const Recording& recording) : recording_(recording) {
    for (const at::Tensor& root : recording.root_fakes) roots_.push_back(gradient_edge(root));
    std::unordered_map<uint32_t, uint32_t> numbers;
    for (uint32_t i = 0; i < recording.differentiable_inputs.size(); ++i)
      numbers[recording.differentiable_inputs[i]] = i;
    for (const auto& [end, input] : inputs_by_end(recording)) ends_[end] = {{BlockExit::To::kInput, numbers.at(input)}};
    for (uint32_t i = 0; i < recording.casts.size(); ++i) {
      const Edge& leaf = recording.inputs[recording.casts[i].leaf].end;
      const NodePtr made = recording.inputs[recording.casts[i].input].fake.grad_fn();
      if (leaf.is_valid() && made) casts_[leaf.function.get()] = {made->sequence_nr(), i};
    }
    for (const ViewOutput& view : recording.views)
      if (view.of_input) add_view_of_input(view);
  }

  History run() {
    put_in_order();
    add_views_of_roots();
    find_cells();
    find_arrivals();
    do {
      order_blocks();
    } while (cut_where_sums_are_out_of_order());
    return make();
  }

 private:
  struct View {
    uint32_t output;
    Edge edge;
  };

  // LibTorch's own operation that made it goes on from there. One that gives several tensors is an end if all of them
  // are outputs.
  void add_view_of_input(const ViewOutput& view) {
    const Edge edge = gradient_edge(view.fake);
    std::vector<End>& ends = ends_[edge.function.get()];
    ends.resize(edge.function->num_inputs(), {BlockExit::To::kBlock, 0});
    ends[edge.input_nr] = {BlockExit::To::kView, view.output};
  }

  bool is_end(const Node* node) const {
    if (!node || is_accumulator(*node)) return true;
    const auto found = ends_.find(node);
    return found != ends_.end() && std::none_of(found->second.begin(), found->second.end(),
                                                [](const End& end) { return end.to == BlockExit::To::kBlock; });
  }
  // Null: no end, or one that collects gradients inside.
  const End* end_at(const Edge& edge) const {
    if (!edge.is_valid() || !is_end(edge.function.get())) return nullptr;
    const auto found = ends_.find(edge.function.get());
    return found == ends_.end() ? nullptr : &found->second[found->second.size() == 1 ? 0 : edge.input_nr];
  }

  template <class F>
  void for_each_next(const Node* node, F&& f) const {
    for (const Edge& edge : node->next_edges())
      if (!is_end(edge.function.get())) f(edge.function.get());
  }

  // That in which the engine would run them if it began at all roots.
  void put_in_order() {
    std::unordered_map<Node*, size_t> waits_for;
    std::vector<Node*> pending;
    auto reach = [&](Node* node) {
      if (waits_for.try_emplace(node, 0).second) pending.push_back(node);
    };
    for (const Edge& root : roots_) reach(root.function.get());
    while (!pending.empty()) {
      Node* node = pending.back();
      pending.pop_back();
      for_each_next(node, [&](Node* next) {
        reach(next);
        ++waits_for[next];
      });
    }
    auto runs_later = [](const Node* a, const Node* b) { return a->sequence_nr() < b->sequence_nr(); };
    std::priority_queue<Node*, std::vector<Node*>, decltype(runs_later)> ready(runs_later);
    for (const Edge& root : roots_)
      if (waits_for.at(root.function.get()) == 0 && position_.try_emplace(root.function.get(), 0).second)
        ready.push(root.function.get());
    while (!ready.empty()) {
      Node* node = ready.top();
      ready.pop();
      position_[node] = static_cast<uint32_t>(operations_.size());
      operations_.push_back({node});
      for_each_next(node, [&](Node* next) {
        if (--waits_for[next] == 0) ready.push(next);
      });
    }
  }

  // Those that a backward may begin at in the middle of what it goes over.
  void add_views_of_roots() {
    for (const ViewOutput& view : recording_.views)
      if (const Edge edge = gradient_edge(view.fake); !view.of_input && position_.count(edge.function.get()))
        views_.push_back({view.output, edge});
  }

  // Operations that the same results reach.
  void find_cells() {
    const size_t words = (roots_.size() + views_.size() + 63) / 64;
    std::vector<Reach> reach(operations_.size(), Reach(words));
    size_t results = 0;
    auto begin_at = [&](const Edge& edge) {
      reach[position_.at(edge.function.get())][results / 64] |= uint64_t{1} << (results % 64);
      ++results;
    };
    for (const Edge& root : roots_) begin_at(root);
    for (const View& view : views_) begin_at(view.edge);
    std::map<Reach, uint32_t> cells;
    for (size_t i = 0; i < operations_.size(); ++i) {
      cell_.push_back(cells.try_emplace(reach[i], static_cast<uint32_t>(cells.size())).first->second);
      for_each_next(operations_[i].node, [&](Node* next) {
        Reach& further = reach[position_.at(next)];
        for (size_t word = 0; word < words; ++word) further[word] |= reach[i][word];
      });
    }
  }

  // Of one cell all come in order.
  void find_arrivals() {
    if (std::all_of(cell_.begin(), cell_.end(), [&](uint32_t cell) { return cell == cell_[0]; })) return;
    for (uint32_t i = 0; i < operations_.size(); ++i)
      for (const Edge& edge : operations_[i].node->next_edges())
        if (edge.is_valid()) arrivals_[{edge.function.get(), edge.input_nr}].push_back(i);
  }

  // Blocks are what the cuts leave of cells, numbered in an order in which they can run, those that begin first in
  // front.
  void order_blocks() {
    std::map<std::pair<uint32_t, size_t>, uint32_t> numbers;
    std::vector<uint32_t> begins;
    for (uint32_t i = 0; i < operations_.size(); ++i) {
      const auto segment = static_cast<size_t>(std::upper_bound(cuts_.begin(), cuts_.end(), i) - cuts_.begin());
      const auto [found, is_new] = numbers.try_emplace({cell_[i], segment}, static_cast<uint32_t>(begins.size()));
      if (is_new) begins.push_back(i);
      operations_[i].block = found->second;
    }
    block_count_ = begins.size();
    if (block_count_ == 1) return;
    std::vector<std::vector<uint32_t>> next(block_count_);
    std::vector<size_t> waits_for(block_count_);
    for (const Operation& operation : operations_)
      for_each_next(operation.node, [&](Node* target) {
        const uint32_t block = operations_[position_.at(target)].block;
        if (block == operation.block) return;
        next[operation.block].push_back(block);
        ++waits_for[block];
      });
    auto runs_later = [&](uint32_t a, uint32_t b) { return begins[a] > begins[b]; };
    std::priority_queue<uint32_t, std::vector<uint32_t>, decltype(runs_later)> ready(runs_later);
    for (uint32_t block = 0; block < block_count_; ++block)
      if (waits_for[block] == 0) ready.push(block);
    std::vector<uint32_t> rank(block_count_);
    for (uint32_t ran = 0; !ready.empty(); ++ran) {
      const uint32_t block = ready.top();
      ready.pop();
      rank[block] = ran;
      for (uint32_t later : next[block])
        if (--waits_for[later] == 0) ready.push(later);
    }
    for (Operation& operation : operations_) operation.block = rank[operation.block];
  }

  // Gradients are added up as they come, and in eager operations of several blocks may take turns. Whether there are
  // further cuts, between such turns.
  bool cut_where_sums_are_out_of_order() {
    if (block_count_ == 1) return false;
    auto block_of = [&](uint32_t position) { return operations_[position].block; };
    std::vector<uint32_t> further;
    for (const auto& [target, arrivals] : arrivals_) {
      auto later = [&](uint32_t a, uint32_t b) { return block_of(a) < block_of(b); };
      if (std::is_sorted(arrivals.begin(), arrivals.end(), later)) continue;
      for (size_t i = 1; i < arrivals.size(); ++i)
        if (block_of(arrivals[i - 1]) != block_of(arrivals[i])) further.push_back(arrivals[i]);
    }
    const size_t before = cuts_.size();
    cuts_.insert(cuts_.end(), further.begin(), further.end());
    std::sort(cuts_.begin(), cuts_.end());
    cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
    return cuts_.size() > before;
  }

  // Those that run last are made first.
  uint32_t number_of(const Node* node) const {
    return static_cast<uint32_t>(block_count_) - 1 - operations_[position_.at(node)].block;
  }

  ResultPlace entry_at(History& history, const Edge& edge) {
    const uint32_t block = number_of(edge.function.get());
    std::vector<Edge>& entries = history.blocks[block].entries;
    const auto [found, is_new] =
        entries_.try_emplace({edge.function.get(), edge.input_nr}, static_cast<uint32_t>(entries.size()));
    if (is_new) entries.push_back(edge);
    return {block, found->second};
  }

  void add_arrival(HistoryBlock& block, const BlockExit& exit, const Edge& end) {
    const auto number = static_cast<uint32_t>(block.exits.size());
    const auto [found, is_new] = exits_.try_emplace({&block, exit.to, exit.block, exit.index, exit.behind}, number);
    if (is_new) block.exits.push_back(exit);
    block.exits[found->second].arrivals.push_back(end);
  }

  History make() {
    History history;
    history.blocks.resize(block_count_);
    for (const Edge& root : roots_) history.roots.push_back(entry_at(history, root));
    for (const Operation& operation : operations_) {
      const uint32_t number = number_of(operation.node);
      HistoryBlock& block = history.blocks[number];
      for (Edge& edge : operation.node->next_edges()) {
        BlockExit exit{};
        if (const End* end = end_at(edge)) {
          exit.to = end->to;
          exit.index = end->index;
          const auto cast = casts_.find(edge.function.get());
          if (cast != casts_.end() && operation.node->sequence_nr() < cast->second.first)
            exit.behind = cast->second.second;
        } else {
          if (is_end(edge.function.get()) || number_of(edge.function.get()) == number) continue;
          const ResultPlace entry = entry_at(history, edge);
          exit = {BlockExit::To::kBlock, entry.block, entry.entry};
        }
        edge = end_in_place_of(edge);
        add_arrival(block, exit, edge);
      }
    }
    for (const View& view : views_) history.views.push_back({view.output, entry_at(history, view.edge)});
    for (HistoryBlock& block : history.blocks) {
      block.results.assign(block.entries.size(), HistoryBlock::kNoRoot);
      block.operation = block.entries.front().function->name();
    }
    for (uint32_t root = 0; root < history.roots.size(); ++root)
      history.blocks[history.roots[root].block].results[history.roots[root].entry] = root;
    choose_roots(history);
    std::vector<PlacedOperation> operations;
    for (const Operation& operation : operations_) operations.push_back({operation.node, number_of(operation.node)});
    find_ends(history, recording_, operations);
    return history;
  }

  // Of those that reach a block, the one whose own operation runs last.
  void choose_roots(History& history) const {
    std::vector<uint32_t> latest(block_count_);
    std::vector<bool> known(block_count_);
    auto offer = [&](uint32_t block, uint32_t root) {
      auto at = [&](uint32_t r) { return position_.at(roots_[r].function.get()); };
      if (!known[block] || at(root) > at(latest[block])) latest[block] = root;
      known[block] = true;
    };
    for (uint32_t root = 0; root < roots_.size(); ++root) offer(history.roots[root].block, root);
    for (size_t block = block_count_; block-- > 0;) {
      history.blocks[block].root = latest[block];
      for (const BlockExit& exit : history.blocks[block].exits)
        if (exit.to == BlockExit::To::kBlock) offer(exit.block, latest[block]);
    }
  }

  const Recording& recording_;
  // By what comes in there, or one for all of that.
  std::unordered_map<const Node*, std::vector<End>> ends_;
  // By where gradients of a leaf end: when its cast was made, and which of Recording::casts it is.
  std::unordered_map<const Node*, std::pair<uint64_t, uint32_t>> casts_;
  std::vector<Edge> roots_;
  std::vector<View> views_;  // of roots
  std::vector<Operation> operations_;
  std::unordered_map<const Node*, uint32_t> position_;  // in operations_
  std::vector<uint32_t> cell_;                          // beside operations_
  // Where gradients come from, by what they come to: positions, in order.
  std::map<std::pair<const Node*, uint32_t>, std::vector<uint32_t>> arrivals_;
  std::vector<uint32_t> cuts_;  // positions, in order, in front of which cells are cut
  size_t block_count_ = 0;
  std::map<std::pair<const Node*, uint32_t>, uint32_t> entries_;
  std::map<std::tuple<const HistoryBlock*, BlockExit::To, uint32_t, uint32_t, uint32_t>, uint32_t> exits_;
};

}  // namespace

History cut_into_blocks(const Recording& recording) { return Cutter(recording).run(); }

Edge end_in_place_of(const Edge& edge) { return {make_node<CutEnd>(edge), 0}; }

const Edge& over_cuts(const Edge& edge) {
  const auto* cut = dynamic_cast<const CutEnd*>(edge.function.get());
  return cut ? cut->beyond : edge;
}

std::vector<Node*> operations_of(const edge_list& from, const std::vector<const Node*>& ends, const edge_list& stops) {
  const std::unordered_set<const Node*> known_ends(ends.begin(), ends.end());
  auto is_stop = [&](const Edge& edge) { return std::find(stops.begin(), stops.end(), edge) != stops.end(); };
  std::unordered_set<const Node*> seen;
  std::vector<Node*> found, pending;
  for (const Edge& edge : from) pending.push_back(edge.function.get());
  while (!pending.empty()) {
    Node* node = pending.back();
    pending.pop_back();
    if (!node || is_accumulator(*node) || known_ends.count(node) || !seen.insert(node).second) continue;
    found.push_back(node);
    for (const Edge& edge : node->next_edges())
      if (const Edge& whole = over_cuts(edge); !is_stop(whole)) pending.push_back(whole.function.get());
  }
  return found;
}

}  // namespace framejit::torchlib
