// A graph that a program builds, or reads from text, with its constants. No LibTorch header is needed to use this file.
//
// Everything here holds the interpreter lock, which is what makes a graph safe to read from other threads while one
// builds it. Functions that fail set a Python error.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/py_ref.h"
#include "graph/graph.h"

namespace framejit::torchlib {

class GraphRecorder;

class BuiltGraph : public std::enable_shared_from_this<BuiltGraph> {
 public:
  explicit BuiltGraph(graph::Graph contents);
  ~BuiltGraph();
  BuiltGraph(const BuiltGraph&) = delete;
  BuiltGraph& operator=(const BuiltGraph&) = delete;

  graph::Graph contents;
  std::unique_ptr<GraphRecorder> recorder;  // its constants are the graph's
  std::vector<std::string> sources;         // of a captured graph: what each input is in the program
  std::string why_no_fx;                    // of a captured graph: what torch.fx cannot say of it
  int guards = 0;                           // that are in force
  std::thread::id guarding_thread;
};

// The value of a new input. The arguments are those of `input_type` in framejit/_graphs.py.
Ref add_graph_input(BuiltGraph& graph, PyObject* args, PyObject* kwargs);
bool set_graph_outputs(BuiltGraph& graph, PyObject* values);  // a tuple
// `constants`: a tuple of tensors and generators.
std::shared_ptr<BuiltGraph> parse_built_graph(std::string_view text, PyObject* constants);
Ref graph_constants(const BuiltGraph& graph);  // a tuple
// All that an Executor relies on. Sets framejit.GraphError.
bool verify_built_graph(const BuiltGraph& graph);
Ref graph_to_fx(const BuiltGraph& graph);
// repr() of a graph value.
Ref describe_graph_value(PyObject* value);

// While it lives, operators on this thread are recorded into the graph. Scopes end in the reverse order.
class GraphScope {
 public:
  virtual ~GraphScope() = default;
};
// Null with a Python error.
std::unique_ptr<GraphScope> enter_graph(std::shared_ptr<BuiltGraph> graph);
// Whether operators on this thread are recorded into some graph.
bool is_building_graph();

// Runs a copy of the graph as it is now.
class GraphExecutor {
 public:
  virtual ~GraphExecutor() = default;
  virtual const graph::Graph& graph() const = 0;
  // New reference: the tensor, or a tuple where the graph has not one output. Null with a Python error.
  virtual Ref call(PyObject* const* inputs, size_t count) const = 0;
};
std::unique_ptr<GraphExecutor> make_graph_executor(const BuiltGraph& graph);

}  // namespace framejit::torchlib
