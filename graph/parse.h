// Reads the textual form of graph/print.h.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "graph/graph.h"

namespace framejit::graph {

struct ParseError {
  int line = 0;
  int column = 0;
  std::string message;

  std::string to_string() const;  // "3:14: expected ')', got ','"
};

// Whether there is an operator of this name ("aten::add.Tensor"). May intern it, with its schema.
using KnowsOperator = bool (*)(std::string_view name);

// Without `knows`, any name is an operator.
Result<Graph, ParseError> parse_graph(std::string_view text, KnowsOperator knows = nullptr);

}  // namespace framejit::graph
