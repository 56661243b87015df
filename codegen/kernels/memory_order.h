// What kernels do to memory, where operators in place take part in them: which nodes have to keep their order.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/alias.h"
#include "graph/graph.h"

namespace framejit::codegen {

// The tensors that a group of nodes reads and writes.
class Footprint {
 public:
  struct Touch {
    graph::ValueId tensor;
    uint32_t storage;  // its alias class
    bool written;
    bool by_rows = false;  // one element of it for each row: see written_by_rows
  };
  bool writes() const { return writes_; }
  const std::vector<Touch>& touches() const { return touches_; }
  void add(const Touch& touch);
  void append(const Footprint& other);

 private:
  std::vector<Touch> touches_;
  bool writes_ = false;
};

enum class Conflict : uint8_t {
  kNone,
  kSameTensor,   // the order matters, and one kernel keeps it: it has the tensor's numbers in its steps
  kOtherTensor,  // another tensor over the same storage, or one that is written by rows: no kernel keeps the order
};

// All answers are "none" where no node of the graph may be written into a kernel in place.
class MemoryOrder {
 public:
  MemoryOrder(const graph::Graph& graph, bool may_write_inputs);

  bool has_writes() const { return aliases_.has_value(); }
  // Whether a node may be in a kernel as far as memory is concerned.
  bool can_be_ordered(const graph::Node& node) const;
  Conflict conflict(const Footprint& group, const graph::Node& node) const;
  void add(const graph::Node& node, Footprint& group) const;
  // Whether the caller has the storage too.
  bool is_outside(graph::ValueId tensor) const;

 private:
  template <class F>
  void for_each_touch(const graph::Node& node, F&& f) const;

  const graph::Graph& graph_;
  const bool may_write_inputs_;
  std::optional<graph::AliasClasses> aliases_;
};

}  // namespace framejit::codegen
