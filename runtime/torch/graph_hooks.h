// What the Python package gives to graphs that a program builds: the class of their values, of their errors, and whose
// lines are not the program's.
#pragma once

#include <string>

#include "base/prefix_set.h"
#include "base/py_ref.h"

namespace framejit::torchlib {

struct GraphHooks {
  Ref value_type;
  Ref error_type;
  PrefixSet library_prefixes;
};

GraphHooks& graph_hooks();

// Sets framejit.GraphError.
void set_graph_error(const std::string& message);
// Throws it through LibTorch. Takes the GIL if this thread does not hold it.
[[noreturn]] void refuse_graph(const std::string& message);

}  // namespace framejit::torchlib
