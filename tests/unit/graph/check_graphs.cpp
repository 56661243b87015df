// Reads files of graphs in the textual form, one after another, and verifies each: inference must give the metas that
// the text says. tests/unit/graph/record_operators.py writes such files from real execution.
//
//   graph_check FILE...    prints each difference and a summary; exit status 1 when there is one
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>

#include "base/check.h"
#include "graph/parse.h"
#include "graph/print.h"
#include "graph/verify.h"

namespace framejit::graph {
namespace {

struct Totals {
  int graphs = 0;
  int differences = 0;
  int without_rule = 0;
  std::map<std::string, int> missing;
  std::map<std::string, int> wrong;
};

void count_rules(const Graph& graph, Totals& totals) {
  InferOutput out;
  for (size_t i = 0; i < graph.node_count(); ++i) {
    const Node& node = graph.node(NodeId(i));
    if (infer_meta(node.op, node.args(), MetaLookup(graph), out) != InferStatus::kNoRule) continue;
    ++totals.without_rule;
    ++totals.missing[std::string(op_name(node.op))];
  }
}

std::string first_op(const Graph& graph) {
  return graph.node_count() ? std::string(op_name(graph.node(NodeId(0)).op)) : "";
}

void check_one(std::string_view text, Totals& totals) {
  ++totals.graphs;
  auto parsed = parse_graph(text);
  if (!parsed) {
    ++totals.differences;
    fmt::print("cannot parse: {}\n{}", parsed.error().to_string(), text);
    return;
  }
  const Graph& graph = *parsed;
  if (std::string again = to_text(graph); again != text) {
    ++totals.differences;
    fmt::print("prints back otherwise:\n{}{}", text, again);
  }
  count_rules(graph, totals);
  if (auto error = verify(graph)) {
    ++totals.differences;
    if (++totals.wrong[first_op(graph)] <= 3) fmt::print("{}\n  {}", *error, text.substr(text.find('(')));
  }
}

void check_file(const char* path, Totals& totals) {
  std::ifstream file(path);
  std::string line, text;
  while (std::getline(file, line)) {
    text += line + "\n";
    if (line != "}") continue;
    check_one(text, totals);
    text.clear();
  }
}

}  // namespace
}  // namespace framejit::graph

int main(int argc, char** argv) try {
  framejit::graph::Totals totals;
  for (int i = 1; i < argc; ++i) framejit::graph::check_file(argv[i], totals);
  for (const auto& [op, count] : totals.wrong) fmt::print("differs  {:5} {}\n", count, op);
  for (const auto& [op, count] : totals.missing) fmt::print("no rule  {:5} {}\n", count, op);
  fmt::print("{} graphs, {} differences, {} nodes without a rule\n", totals.graphs, totals.differences,
             totals.without_rule);
  return totals.differences ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
