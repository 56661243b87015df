// A graph as plain Python data. Values have the numbers of its text.
#pragma once

#include <string>
#include <vector>

#include "graph/print.h"
#include "runtime/python_util.h"

namespace framejit::runtime {

// Each is null with a Python error.
class GraphData {
 public:
  explicit GraphData(const graph::Graph& graph) : graph_(graph), numbers_(graph::text_numbers(graph)) {}

  // A list of (id, type).
  Ref inputs() const {
    return list_of(graph_.inputs(), [this](graph::ValueId id) { return typed(id); });
  }

  // A list of ids.
  Ref outputs() const {
    std::vector<graph::ValueId> values;
    for (graph::ValueId id : graph_.outputs())
      if (id.valid()) values.push_back(id);
    return list_of(values, [this](graph::ValueId id) { return number(id); });
  }

  // A list of (operator, ids of its operands, list of (id, type) of its results, file, line).
  Ref nodes() const {
    std::vector<const graph::Node*> nodes;
    for (size_t n = 0; n < graph_.node_count(); ++n)
      if (const graph::Node& node = graph_.node(graph::NodeId(n)); !node.erased) nodes.push_back(&node);
    return list_of(nodes, [this](const graph::Node* item) { return node(*item); });
  }

 private:
  Ref number(graph::ValueId id) const { return Ref::steal(PyLong_FromUnsignedLong(numbers_[id.index()])); }

  Ref typed(graph::ValueId id) const {
    return Ref::steal(Py_BuildValue("(Is)", numbers_[id.index()], graph::to_string(graph_.meta(id)).c_str()));
  }

  Ref node(const graph::Node& node) const {
    std::vector<graph::ValueId> operands, results;
    for (const graph::Operand& operand : node.args())
      graph::for_each_value(operand, [&](graph::ValueId id) { operands.push_back(id); });
    for (size_t i = 0; i < node.result_count; ++i) results.push_back(node.result(i));
    Ref in = list_of(operands, [this](graph::ValueId id) { return number(id); });
    Ref out = list_of(results, [this](graph::ValueId id) { return typed(id); });
    if (!in || !out) return nullptr;
    const bool known = node.location.valid();
    const std::string file(known ? graph_.location(node.location).file : std::string_view());
    return Ref::steal(Py_BuildValue("(sOOsi)", graph::op_text(node.op).c_str(), in.get(), out.get(), file.c_str(),
                                    known ? graph_.location(node.location).line : 0));
  }

  const graph::Graph& graph_;
  std::vector<uint32_t> numbers_;
};

}  // namespace framejit::runtime
