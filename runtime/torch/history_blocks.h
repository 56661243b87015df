// The history of a graph's results, as autograd has it of the fakes, in blocks: each becomes one node of autograd's
// graph.
#pragma once

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/torch/recording.h"

namespace framejit::torchlib {

// Where gradients leave a block, each by an edge of its own: in the order in which eager adds them up.
struct BlockExit {
  // An input of the recording, an output that is a view of one, an entry of a block that is made before this one.
  enum class To : uint8_t { kInput, kView, kBlock };
  To to;
  uint32_t block;  // of the entry
  uint32_t index;  // in Recording::differentiable_inputs, in Recording::outputs, of the entry
  std::vector<torch::autograd::Edge> arrivals = {};  // ends of the fakes' graph
  // Of a leaf: which of Recording::casts is made of it after these operations. They come behind it in a backward.
  uint32_t behind = kNoCast;
  static constexpr uint32_t kNoCast = 0xffffffffu;
  uint32_t end = kNoEnd;  // in History::ends
  static constexpr uint32_t kNoEnd = 0xffffffffu;
};

// Operations that a backward goes over together or not at all: the same results reach all of them. So a backward walks
// from block to block as it walks in eager from operation to operation: what it does not reach keeps what is saved, and
// hooks behind that are not called.
struct HistoryBlock {
  static constexpr uint32_t kNoRoot = 0xffffffffu;
  std::vector<torch::autograd::Edge> entries;  // where gradients come in: inputs of its operations
  std::vector<uint32_t> results;               // beside `entries`: in Recording::roots, or kNoRoot
  std::vector<BlockExit> exits;
  std::string operation;  // eager's name for what the first entry is of: messages of torch name it
  uint32_t root = 0;      // the result that has the least history of those that reach it; in Recording::roots
};

// The entry that stands for the history of a result.
struct ResultPlace {
  uint32_t block, entry;
};
struct ViewPlace {
  uint32_t output;  // in Recording::outputs
  ResultPlace place;
};

// An exit to a leaf, or to a view of an input, where eager has the operation that gives the last gradient.
struct HistoryEnd {
  uint32_t block, exit;
  uint32_t in_front_of;   // the block before which a node here is made
  std::string operation;  // eager's name for what gives the last gradient
};

struct History {
  std::vector<HistoryBlock> blocks;  // in the order in which their nodes are made: autograd runs the last first
  std::vector<ResultPlace> roots;    // beside Recording::roots
  std::vector<ViewPlace> views;      // outputs that are views of roots, where roots have them in their history
  std::vector<HistoryEnd> ends;      // in the order in which nodes here are made
};

// Cuts the fakes' graph apart where blocks end. Once for a recording.
History cut_into_blocks(const Recording& recording);

// The operations that a backward of `from` goes over, `ends` left out, in an order that is that of any graph of the
// same shape. Cuts are passed over, but for those of the edges `stops`.
std::vector<torch::autograd::Node*> operations_of(const torch::autograd::edge_list& from,
                                                  const std::vector<const torch::autograd::Node*>& ends,
                                                  const torch::autograd::edge_list& stops = {});

// The edge, or the one that is cut where it is an end in place of that.
const torch::autograd::Edge& over_cuts(const torch::autograd::Edge& edge);

// An end that takes what goes along an edge, for as long as the edge is cut.
torch::autograd::Edge end_in_place_of(const torch::autograd::Edge& edge);

}  // namespace framejit::torchlib
