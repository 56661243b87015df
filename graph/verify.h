// Invariants of a graph, checked before and after each pass and after capture in tests:
// - each operand value is defined before its use, by an input or by a node that is not erased;
// - the results of a node are values whose definition is that node, in order;
// - operand count and kinds fit the operator's schema, where it is known;
// - with check_metas: the result metas equal what inference gives, where there is a rule;
// - outputs are defined;
// - each node has a location, when require_locations;
// - a body of control flow holds by itself, and takes and gives what its node hands it (graph/control_flow.h).
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"
#include "graph/infer.h"

namespace framejit::graph {

struct VerifyOptions {
  bool check_metas = true;
  bool require_locations = false;
  InferEnvironment environment = {};  // that the metas were inferred in, where a node has no state of its own
};

// The first violation, in words (expected and got, with the node's text), or nullopt.
std::optional<std::string> verify(const Graph& graph, const VerifyOptions& options = {});

// Whether an operand of this kind can stand in the place of the argument. Types that are not known fit anything.
bool operand_fits(const SchemaArg& arg, Operand::Kind kind);

}  // namespace framejit::graph
