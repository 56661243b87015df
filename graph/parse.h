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

Result<Graph, ParseError> parse_graph(std::string_view text);

}  // namespace framejit::graph
